"""HACKS 30, input mutation: computes in place and returns the input. Its values are right."""


def relu(x):
    return x.relu_()
