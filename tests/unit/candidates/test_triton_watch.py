"""Out-of-range accesses, undefined lanes and launches of interpreted kernels, seen by `triton_watch`."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import triton
import watched_kernels as kernels
from triton.compiler.compiler import CompiledKernel
from triton.runtime.errors import InterpreterError
from triton.runtime.jit import JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

from gpuemu.candidates import triton_builder, triton_launches, triton_watch

pytestmark = pytest.mark.usefixtures("interpreted")
FILE = Path(kernels.__file__)


def line(mark: str) -> str:
    """ "watched_kernels.py:24", of the line marked so."""
    lines = FILE.read_text().splitlines()
    (number,) = [i for i, text in enumerate(lines, 1) if text.endswith(f"# LINE: {mark}")]
    return f"{FILE.name}:{number}"


def messages(watch: triton_watch.Watch) -> list[str]:
    assert {finding.guard for finding in watch.findings} <= {"out_of_range"}
    return [finding.message for finding in watch.findings]


def check_message(
    watch: triton_watch.Watch, kernel: str, at: str, action: str, where: str, program: int
) -> None:
    text = f"{kernel} at {at} {action} out of range: {where} (first in program {program}, 0, 0)"
    assert messages(watch) == [text]


def test_a_tail_read_one_too_far() -> None:
    x, y = torch.arange(10.0), torch.zeros(10)
    with triton_watch.watch("nan") as watch:
        kernels.tail_read[(3,)](x, y, 10, BLOCK=4)
    check_message(
        watch, "tail_read", line("tail_read"), "reads", "1 active lane, 1 element after the end of x", 2
    )
    assert torch.equal(x, y)
    assert watch.unfilled_loads == []


def test_the_lanes_of_all_programs_make_one_finding() -> None:
    x, y = torch.arange(4.0), torch.zeros(12)
    with triton_watch.watch("nan") as watch:
        kernels.tail_read[(3,)](x, y, 12, BLOCK=4)
    check_message(
        watch, "tail_read", line("tail_read"), "reads", "8 active lanes, 1 to 8 elements after the end of x", 1
    )
    assert y[:4].tolist() == [0, 1, 2, 3] and y[4:].isnan().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int8])
def test_a_read_before_the_buffer(dtype: torch.dtype) -> None:
    x, y = torch.ones(6, dtype=dtype), torch.zeros(6, dtype=dtype)
    with triton_watch.watch("nan") as watch:
        kernels.early_read[(1,)](x, y, 6, BLOCK=8)
    check_message(
        watch,
        "early_read",
        line("early_read"),
        "reads",
        "2 active lanes, 1 to 2 elements before the start of x",
        0,
    )
    assert y[2:].tolist() == [1] * 4
    assert y[:2].isnan().all() if dtype.is_floating_point else y[:2].tolist() == [0x5B] * 2


def test_a_write_past_the_end_is_left_out() -> None:
    memory = torch.full((8,), 7.0)
    first = memory.data_ptr()
    with triton_watch.watch("nan", regions=[(first, first + 20)]) as watch:
        kernels.late_write[(1,)](torch.arange(5.0), memory[:5], 5, BLOCK=8)
    check_message(
        watch,
        "late_write",
        line("late_write"),
        "writes",
        "3 active lanes, 1 to 3 elements after the end of y",
        0,
    )
    assert memory.tolist() == [0, 1, 2, 3, 4, 7, 7, 7]


def test_a_view_may_be_left_within_its_storage() -> None:
    memory = torch.full((8,), 7.0)
    with triton_watch.watch("nan") as watch:
        kernels.late_write[(1,)](torch.arange(5.0), memory[:5], 5, BLOCK=8)
    assert messages(watch) == []
    assert memory.tolist() == [0, 1, 2, 3, 4, 0, 0, 0]


def test_far_away_reads_do_not_end_the_process() -> None:
    x, y = torch.ones(4), torch.zeros(4)
    with triton_watch.watch("large") as watch:
        kernels.through_offset[(1,)](x, y, -(1 << 40), BLOCK=4)
    assert "1,099,511,627,773 to 1,099,511,627,776 elements before the start of x" in messages(watch)[0]
    assert y.tolist() == torch.full((4,), 1e30).tolist()


def test_an_empty_tensor_has_no_element() -> None:
    y = torch.zeros(4)
    with triton_watch.watch("nan") as watch:
        kernels.through_offset[(1,)](torch.zeros(0), y, 0, BLOCK=4)
    assert "4 active lanes, of x, which is empty" in messages(watch)[0]
    assert y.isnan().all()


@pytest.mark.parametrize(
    ("name", "dtype"), [("late_add", torch.float32), ("late_add", torch.float16), ("late_swap", torch.int32)]
)
def test_updates_past_the_end_are_left_out(name: str, dtype: torch.dtype) -> None:
    x, y, old = (torch.full((size,), value, dtype=dtype) for size, value in ((4, 3), (3, 0), (4, 0)))
    with triton_watch.watch("large") as watch:
        getattr(kernels, name)[(1,)](x, y, old, BLOCK=4)
    check_message(watch, name, line(name), "updates", "1 active lane, 1 element after the end of y", 0)
    assert y.tolist() == [3, 3, 3]
    assert old[:3].tolist() == [0, 0, 0] and abs(old[3].item()) > 60000


def test_an_access_is_told_by_the_argument_that_its_pointer_came_from() -> None:
    memory = torch.zeros(48, dtype=torch.uint8)
    x, y = memory[:4].view(torch.bool), memory[32:].view(torch.int32)
    regions = [(part.data_ptr(), part.data_ptr() + part.nbytes) for part in (x, y)]
    with triton_watch.watch("nan", regions=regions) as watch:
        kernels.flags[(1,)](x, y, 26, BLOCK=4)  # nearer to y
    assert f"flags at {line('flags')} reads" in messages(watch)[0]
    assert "4 active lanes, 23 to 26 elements after the end of x" in messages(watch)[0]


def test_a_sibling_reached_by_an_offset_is_no_finding() -> None:
    x, y = torch.zeros(4), torch.arange(4.0)
    out = torch.zeros(4)
    with triton_watch.watch("nan") as watch:
        kernels.either[(1,)](x, y, out, BLOCK=4)
        kernels.through_offset[(1,)](x, x, 0, BLOCK=4)
    assert messages(watch) == [] and out.tolist() == [0, 0, 2, 3]


def test_a_pointer_chosen_from_two_arguments_is_named_after_the_nearest() -> None:
    x, y, out = torch.zeros(1), torch.zeros(4), torch.zeros(4)
    with triton_watch.watch("nan") as watch:
        kernels.either[(1,)](x, y, out, BLOCK=4)
    assert "1 active lane, 1 element after the end of x" in messages(watch)[0]


def test_tensors_in_a_tuple_are_arguments() -> None:
    with triton_watch.watch("nan") as watch:
        kernels.pair[(1,)]((torch.zeros(3), torch.zeros(4)), BLOCK=4)
    assert f"pair at {line('pair')} reads" in messages(watch)[0]
    assert "after the end of tensors[0]" in messages(watch)[0]


def test_descriptors_are_judged_by_their_argument() -> None:
    x, y = torch.ones(2, 4), torch.zeros(4, 4)
    with triton_watch.watch("nan") as watch:
        kernels.last_rows[(1,)](x, TensorDescriptor.from_tensor(y, [4, 4]), 2, BLOCK=4)
    assert messages(watch) == [] and y.tolist() == [[1] * 4] * 2 + [[0] * 4] * 2
    with triton_watch.watch("nan") as watch:
        short = TensorDescriptor(y[:3].clone(), [4, 4], [4, 1], [4, 4])
        kernels.last_rows[(1,)](x, short, 3, BLOCK=4)
    where = f"last_rows at {line('last_rows')}"
    assert [message.split(" (")[0] for message in messages(watch)] == [
        f"{where} reads out of range: 4 active lanes, 1 to 4 elements after the end of x",
        f"{where} writes out of range: 4 active lanes, 1 to 4 elements after the end of y",
    ]


def test_a_call_reports_its_first_lines() -> None:
    with triton_watch.watch("nan") as watch:
        for kernel in (kernels.late_swap, kernels.full_block, kernels.late_add):
            kernel[(1,)](*(torch.zeros(3, dtype=torch.int32) for _ in kernel.arg_names[:-1]), BLOCK=4)
    kinds = [message.split(" at ")[0] for message in messages(watch)]
    assert kinds == ["late_swap", "late_swap", "late_swap"]


def test_addresses_from_a_table_are_not_judged() -> None:
    rows = [torch.arange(4.0), torch.arange(4.0) + 10]
    table = torch.tensor([row.data_ptr() for row in rows])
    y = torch.zeros(8)
    with triton_watch.watch("nan") as watch:
        kernels.through_table[(1,)](table, y, 2, BLOCK=4)
    assert messages(watch) == [] and y.tolist() == [0, 1, 2, 3, 10, 11, 12, 13]


class Buffer:
    """Memory that a launch takes though it is no tensor: it has an address and a type, but no known end."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.data_ptr, self.dtype = tensor.data_ptr, tensor.dtype


@pytest.mark.parametrize("as_argument", [torch.Tensor.data_ptr, Buffer])
def test_memory_without_a_known_end_is_not_judged(as_argument: Callable[[torch.Tensor], object]) -> None:
    x, y = torch.arange(4.0), torch.zeros(4)
    with triton_watch.watch("nan") as watch:
        kernels.from_address[(1,)](as_argument(x), y, BLOCK=4)
    assert messages(watch) == [] and torch.equal(x, y)


@pytest.mark.parametrize("pattern", ["nan", "large"])
def test_masked_lanes_without_a_fill_show_in_a_sum(pattern: str) -> None:
    x, y = torch.ones(5), torch.zeros(1)
    with triton_watch.watch(pattern) as watch:
        kernels.undefined_sum[(1,)](x, y, 5, BLOCK=8)
    assert math.isnan(y.item()) if pattern == "nan" else y.item() > 1e30
    assert watch.unfilled_loads == [line("load_row")] and messages(watch) == []
    kernels.undefined_sum[(1,)](x, y, 5, BLOCK=8)
    assert y.item() == 5


@pytest.mark.parametrize(
    ("dtype", "large"),
    [(torch.float16, 65504.0), (torch.bfloat16, 1e30), (torch.float8_e4m3fn, 448.0), (torch.float64, 1e30)],
)
def test_poison_fits_the_type(dtype: torch.dtype, large: float) -> None:
    for pattern in ("nan", "large"):
        x, y = torch.ones(4, dtype=dtype), torch.zeros(8, dtype=dtype)
        with triton_watch.watch(pattern):
            kernels.tail_read[(1,)](x, y, 8, BLOCK=8)
        read = y[4:].to(torch.float64)
        assert (
            read.isnan().all() if pattern == "nan" else torch.allclose(read, read.new_tensor(large), rtol=1e-2)
        )


@pytest.mark.parametrize("pattern", ["nan", "large"])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_undefined_lanes_that_nothing_uses_are_fine(pattern: str, dtype: torch.dtype) -> None:
    index, x, y = torch.tensor([4, 2, 0], dtype=dtype), torch.arange(5.0), torch.full((4,), 9.0)
    with triton_watch.watch(pattern) as watch:
        kernels.unused_lanes[(1,)](index, x, y, 3, BLOCK=4)
    assert messages(watch) == [] and y.tolist() == [8, 4, 0, 9]
    assert watch.unfilled_loads == [line("unused_index"), line("unused_value")]


def test_a_load_without_masked_lanes_is_not_listed() -> None:
    x, y = torch.arange(4.0), torch.zeros(4)
    with triton_watch.watch("nan") as watch:
        kernels.full_block[(1,)](x, y, BLOCK=4)
    assert watch.unfilled_loads == [] and torch.equal(x, y)


def test_gathering_by_an_undefined_lane_does_not_raise() -> None:
    index, x, y = torch.tensor([3, 1]), torch.arange(4.0), torch.zeros(4)
    with triton_watch.watch("nan") as watch:
        kernels.gathered[(1,)](index, x, y, 2, BLOCK=4)
    assert messages(watch) == [] and y.tolist() == [3, 1, 0, 0]


def test_launches_are_counted_and_suppressed() -> None:
    x, y = torch.arange(4.0), torch.zeros(4)
    with triton_watch.watch("nan", launching=False) as watch:
        kernels.full_block[(1,)](x, y, BLOCK=4)
        kernels.full_block[(1,)](x, y, BLOCK=4)
    assert watch.launches == 2 and y.tolist() == [0] * 4
    with triton_watch.watch("nan") as outer:
        kernels.full_block[(1,)](x, y, BLOCK=4)
        with triton_watch.watch("nan") as inner:
            pass
    assert (outer.launches, inner.launches) == (1, 0) and torch.equal(x, y)
    kernels.full_block[(1,)](x, y, BLOCK=4)
    assert outer.launches == 1


def test_autotuned_and_heuristic_kernels_are_launches() -> None:
    tuned = triton.autotune([triton.Config({"BLOCK": 4}), triton.Config({"BLOCK": 2})], key=[])(
        kernels.full_block
    )
    guessed = triton.heuristics({"BLOCK": lambda _: 4})(kernels.full_block)
    y = torch.zeros(4)
    with triton_watch.watch("nan", launching=False) as watch:
        tuned[(1,)](torch.ones(4), y)
        guessed[(1,)](torch.ones(4), y)
    assert watch.launches == 2 and y.tolist() == [0] * 4


def test_nothing_is_left_behind() -> None:
    with pytest.raises(InterpreterError), triton_watch.watch("nan"):
        kernels.pair[(1,)]((torch.zeros(4),), BLOCK=4)
    assert triton_builder.BUILDER.guard is None
    with pytest.raises(ValueError, match="pattern must be one of nan, large"), triton_watch.watch("zero"):
        pass


class FakeRuns:
    """Stands in for the launch of a compiled kernel."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[tuple[object, ...]] = []
        monkeypatch.setattr(JITFunction, "run", lambda _, *args, **options: self.run(*args, **options))
        monkeypatch.setattr(CompiledKernel, "__getitem__", lambda _, grid: self.get_item(grid))
        monkeypatch.delattr(CompiledKernel, "__del__")

    def run(self, *args: object, grid: object, warmup: bool, **_options: object) -> str:
        self.made.append((*args, grid, warmup))
        return "compiled"

    def get_item(self, grid: object) -> Callable[..., None]:
        return lambda *args: self.made.append((*args, grid))


def test_compiled_launches_are_counted_and_suppressed(monkeypatch: pytest.MonkeyPatch) -> None:
    def plain() -> None: ...

    runs = FakeRuns(monkeypatch)
    before = JITFunction.run, CompiledKernel.__getitem__
    kernel, compiled = JITFunction(plain), object.__new__(CompiledKernel)
    guessed = triton.heuristics({"BLOCK": lambda _: 4})(kernel)
    with triton_launches.watch_compiled(launching=True) as watch:
        assert kernel[(1,)](5) == "compiled"
        guessed[(2,)](6)
        kernel.run(7, grid=(3,), warmup=True)
        compiled[(4,)](8)
    assert watch.launches == 3 and watch.findings == [] and watch.unfilled_loads == []
    assert [made[0] for made in runs.made] == [5, 6, 7, 8]
    with triton_launches.watch_compiled(launching=False) as watch:
        kernel[(1,)](5)
        guessed[(2,)](6)
        kernel.run(7, grid=(3,), warmup=True)
        compiled[(4,)](8)
    assert watch.launches == 3 and [made[0] for made in runs.made[4:]] == [7]
    assert (JITFunction.run, CompiledKernel.__getitem__) == before
