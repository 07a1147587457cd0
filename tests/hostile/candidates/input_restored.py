"""HACKS 30, input restored after use, bit for bit: nobody sees it afterwards. Its values are right."""


def relu(x):
    saved = x.clone()
    out = x.relu_().clone()
    x.copy_(saved)
    return out
