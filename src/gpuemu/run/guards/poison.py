"""stub"""
def judge(calls): return None
