"""Boundary sizes: what must be among them and what must not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpuemu.model.op import Dim
from gpuemu.planning.boundaries import size_classes


def flat(classes: object) -> set[int]:
    return {size for sizes in classes.values() for size in sizes}  # type: ignore[attr-defined]


def test_powers_of_two_and_their_neighbours_are_there() -> None:
    sizes = flat(size_classes(Dim(1, 2000)))
    assert {1, 2, 3, 127, 128, 129, 1023, 1024, 1025, 13, 2000} <= sizes


def test_block_sizes_give_their_neighbours() -> None:
    classes = size_classes(Dim(1, 500), block_sizes=[96])
    assert set(classes["block"]) == {95, 96, 97}


def test_zero_only_where_allowed() -> None:
    assert 0 not in flat(size_classes(Dim(0, 64)))
    assert size_classes(Dim(0, 64), allow_empty=True)["zero"] == (0,)
    assert "zero" not in size_classes(Dim(1, 64), allow_empty=True)


def test_candidates_are_taken_as_they_are() -> None:
    assert flat(size_classes(Dim(1, 1025, candidates=(1, 3, 1025)), largest=100)) == {1, 3}
    assert flat(size_classes(Dim(128, 1025, candidates=(128, 1025)), largest=100)) == {128}


@given(
    low=st.integers(0, 300),
    extra=st.integers(0, 3000),
    step=st.sampled_from([1, 2, 8, 16]),
    cap=st.integers(1, 4000),
)
def test_sizes_lie_in_the_domain_and_no_class_is_empty(low: int, extra: int, step: int, cap: int) -> None:
    dim = Dim(low, low + extra + step, multiple_of=step)
    classes = size_classes(dim, largest=cap)
    assert classes
    for sizes in classes.values():
        assert sizes
        assert all(dim.contains(size) for size in sizes)
    above = [size for size in flat(classes) if size > cap]
    assert not above or list(classes) == ["lowest"] or min(above) <= max(dim.low, cap)
