"""Exception whose text cannot be read: `str` and `repr` raise, and its type's name colours the terminal."""


class Hostile(Exception):
    """Tells nothing."""

    def __str__(self):
        raise ValueError("no")

    __repr__ = __str__


Hostile.__name__ = Hostile.__qualname__ = "\x1b[31mHostile\x1b[2J\n" * 100


def relu(x):
    raise Hostile
