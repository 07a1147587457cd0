"""Red zones: inputs come out as they went in, and what lies around them is watched."""

from __future__ import annotations

import ctypes
import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuemu.run.guards import red_zone

INPUTS = {
    "x": torch.arange(35.0).reshape(5, 7).t(),
    "y": torch.arange(9, dtype=torch.bfloat16)[1:],
    "index": torch.tensor([3, 1]),
    "empty": torch.empty(0, 4),
    "gaps": torch.arange(40.0)[3:].as_strided((4, 3), (9, 2)),
    "expanded": torch.tensor([2.5]).expand(3, 4),
    "mask": torch.tensor([True, False, True]),
    "code": torch.tensor([1.0, 2.0]).to(torch.float8_e4m3fn),
}


def laid_out(pattern: str = "nan") -> tuple[torch.Tensor, red_zone.ArenaPlan]:
    plan = red_zone.plan_arena(INPUTS)
    arena = torch.empty(plan.size_bytes, dtype=torch.uint8)
    red_zone.fill(arena, plan, INPUTS, pattern)
    return arena, plan


@pytest.mark.parametrize("pattern", ["nan", "large"])
def test_inputs_are_in_the_arena_as_they_were(pattern: str) -> None:
    arena, plan = laid_out(pattern)
    views = red_zone.views(arena, plan)
    assert list(views) == list(INPUTS)
    for name, made in INPUTS.items():
        view = views[name]
        assert (view.shape, view.stride(), view.dtype) == (made.shape, made.stride(), made.dtype)
        assert view.storage_offset() == made.storage_offset()
        assert view.untyped_storage().nbytes() == made.untyped_storage().nbytes()
        assert view.double().equal(made.double())
        assert (
            view.untyped_storage().data_ptr() % 64 == plan.places[0].offset_bytes % 64 == 0 or not made.numel()
        )


def test_a_plan_survives_as_json() -> None:
    _, plan = laid_out()
    assert red_zone.ArenaPlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


@pytest.mark.parametrize(("pattern", "shows"), [("nan", torch.isnan), ("large", lambda x: x == 1e30)])
def test_what_lies_around_and_between_the_elements_is_loud(pattern: str, shows: object) -> None:
    arena, plan = laid_out(pattern)
    places = {place.name: place for place in plan.places}
    start, end = places["x"].offset_bytes, places["x"].offset_bytes + places["x"].storage_bytes
    around = torch.cat((arena[start - 64 : start], arena[end : end + 64])).view(torch.float32)
    assert callable(shows)
    assert bool(shows(around).all())
    gaps = red_zone.views(arena, plan)["gaps"].as_strided((1,), (1,), 4)
    assert bool(shows(gaps).all())


def test_integers_are_surrounded_by_one_of_their_own() -> None:
    arena, plan = laid_out()
    place = plan.places[2]
    assert arena[place.offset_bytes - 8 : place.offset_bytes].view(torch.int64).tolist() == [3]


@pytest.mark.parametrize(
    ("name", "offset", "says"),
    [("x", 140, "the first 1 bytes after the end of x"), ("x", -4, "the first 4 bytes before the start of x"),
     ("gaps", 160 + 40, "the first 41 bytes after the end of gaps")],
)  # fmt: skip
def test_a_write_outside_is_placed(name: str, offset: int, says: str) -> None:
    arena, plan = laid_out()
    before = arena.clone()
    assert red_zone.compare(arena, before, plan) is None
    address = red_zone.views(arena, plan)[name].untyped_storage().data_ptr()
    ctypes.memset(address + offset, 1, 4)
    finding = red_zone.compare(arena, before, plan)
    assert finding is not None
    assert finding.guard == "red_zone"
    assert f"wrote 4 bytes outside its inputs, {says}" in finding.message


def test_a_write_inside_is_not_its_business() -> None:
    arena, plan = laid_out()
    before = arena.clone()
    red_zone.views(arena, plan)["x"].add_(1)
    assert red_zone.compare(arena, before, plan) is None


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.sampled_from([torch.float32, torch.int8, torch.float64])), max_size=5
    )
)
def test_no_two_storages_touch(shapes: list[tuple[int, torch.dtype]]) -> None:
    inputs = {str(n): torch.zeros(size, dtype=dtype) for n, (size, dtype) in enumerate(shapes)}
    plan = red_zone.plan_arena(inputs)
    ends = 0
    for place in plan.places:
        assert place.offset_bytes - ends >= red_zone.SMALLEST_ZONE_BYTES
        assert place.offset_bytes % red_zone.ALIGNMENT_BYTES == 0
        ends = place.offset_bytes + place.storage_bytes
    assert plan.size_bytes - ends >= (red_zone.SMALLEST_ZONE_BYTES if shapes else 0)
