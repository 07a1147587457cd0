"""Exception at import."""

raise RuntimeError("no such architecture")


def relu(x):
    return x
