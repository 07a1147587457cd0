"""Attributes replaced for a while."""

from __future__ import annotations

from gpuemu.candidates.replaced import ReplacedAttributes


class Base:
    inherited = 1


class Target(Base):
    own = 2


def test_everything_is_put_back_also_what_was_absent_or_replaced_twice() -> None:
    replaced = ReplacedAttributes()
    assert not replaced
    for name, value in (("own", 3), ("own", 4), ("inherited", 5), ("fresh", 6)):
        replaced.replace(Target, name, value)
    assert replaced
    assert (Target.own, Target.inherited, Target.fresh) == (4, 5, 6)  # type: ignore[attr-defined]
    replaced.restore()
    assert not replaced
    assert Target.own == 2
    assert "inherited" not in vars(Target)
    assert not hasattr(Target, "fresh")
