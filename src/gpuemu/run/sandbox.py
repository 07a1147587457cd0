"""stub"""
from gpuemu.run.protections import NAMES, Policy, Protections
def isolate(policy): return Protections((), {})
def confine(policy): return Protections((), {})
def kill_others():
    import os, signal
    for line in open(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read().split():
        os.kill(int(line), 9)
        try: os.waitpid(int(line), 0)
        except ChildProcessError: pass
