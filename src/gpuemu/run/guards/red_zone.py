"""stub"""
from dataclasses import dataclass
import torch
@dataclass(frozen=True)
class ArenaPlan:
    items: tuple
    size_bytes: int
    def to_json(self): return {"items":[list(map(list_, i)) for i in self.items],"size_bytes":self.size_bytes}
    @staticmethod
    def from_json(d): return ArenaPlan(tuple((n,o,b,tuple(s),tuple(t),so,dt) for n,o,b,s,t,so,dt in d["items"]), d["size_bytes"])
def list_(x): return list(x) if isinstance(x, tuple) else x
def plan_arena(inputs):
    items=[]; off=256
    for n,t in inputs.items():
        b=t.untyped_storage().nbytes()
        items.append((n,off,b,tuple(t.shape),tuple(t.stride()),t.storage_offset(),str(t.dtype)[6:]))
        off+=(b+255)//256*256+256
    return ArenaPlan(tuple(items), off)
def ArenaPlan_to_json(p): pass
ArenaPlan.to_json=lambda self: {"items":[[n,o,b,list(s),list(t),so,dt] for n,o,b,s,t,so,dt in self.items],"size_bytes":self.size_bytes}
def fill(arena, plan, inputs, pattern):
    arena.fill_(255 if pattern=="nan" else 0x71)
    for (n,o,b,*_),t in zip(plan.items, inputs.values()):
        arena[o:o+b].copy_(torch.empty(0,dtype=torch.uint8,device=t.device).set_(t.untyped_storage()))
def views(arena, plan):
    out={}
    for n,o,b,s,t,so,dt in plan.items:
        d=getattr(torch,dt)
        base=torch.from_dlpack(arena[o:o+b]) if b else torch.empty(0,dtype=torch.uint8)
        out[n]=torch.empty(0,dtype=d,device=arena.device).set_(base.untyped_storage(), so, s, t)
    return out
def compare(arena, before, plan): 
    return None
