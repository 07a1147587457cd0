"""stub"""
def rewrite_one(views, values, n): return ()
