"""The hostile candidates, one a way of getting a false "correct" (HACKS.md) or of ending the judge, and the
verdict that is right about each.

A candidate lies in `candidates/NAME.py`; its docstring says how it works; its function has the op's name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

CANDIDATES = Path(__file__).parent / "candidates"
PASS, FAIL, ERROR, REFUSED = "pass", "fail", "error", "refused"
UNPROTECTED = ("caught", "missed", "passes", "lost", "hangs", "harm", "unknown")
EXIT_CODES = {PASS: 0, FAIL: 1, ERROR: 1, "unsupported": 4, "inconclusive": 4, REFUSED: 2}


@dataclass(frozen=True)
class Hostile:
    """What is right about a candidate.

    statuses: of the run, protections active; the first is the one we expect, the others are right too;
        "refused" if the target could not be imported.
    kinds: of records that fail; one of them at least occurs. () where the status says it all; "exception" is of
        an error without a kind.
    stopped_by: what the right verdict rests on: a guard by name; "bound" (values against expected ones);
        "form" (type, shape, dtype, number); "process" (one of its own, with a timeout); "blind" (no answer,
        seed or judge in it); "sandbox" (namespaces, Landlock, limits); "harmless" (nothing is wrong);
        "gap" (nothing stops it yet: the first status is what is said, not what should be).
    unprotected: without a worker (`--runner inline`): "caught" (the right verdict all the same), "missed"
        (another verdict, or a right one with a wrong exit code), "passes" (gets through), "lost" (no report:
        the judge had ended), "hangs", "harm" (files, the store or processes are not as they were).
    naive: in which order the naive judge accepts it: "first", "after", "both", or "".
    """

    name: str
    op: str
    hacks: tuple[int, ...]
    statuses: tuple[str, ...]
    kinds: tuple[str, ...]
    stopped_by: tuple[str, ...]
    unprotected: str
    naive: str
    device: str = "cpu"

    @property
    def path(self) -> Path:
        """Its file."""
        return CANDIDATES / f"{self.name}.py"

    @property
    def tries(self) -> str:
        """The first line of its docstring."""
        return (ast.get_docstring(ast.parse(self.path.read_text())) or "").partition("\n")[0]

    @property
    def call_timeout_s(self) -> float:
        """How long a call may take: ample, but for those that hang and are waited for in each case."""
        return 2.0 if "hang" in self.kinds else 20.0

    def is_right(self, status: str, kinds: Iterable[str], exit_code: int | None) -> bool:
        """Whether a run's status, the kinds of its failing records and its exit code are right."""
        fits = status in self.statuses and exit_code == EXIT_CODES[status]
        return fits and (status not in (FAIL, ERROR) or not self.kinds or any(map(self._names, kinds)))

    def _names(self, kind: str) -> bool:
        # Wrong values may show in one layout only, or first as a relation that does not hold.
        like_value = kind == "layout" or kind.startswith("relation:")
        return kind in self.kinds or (like_value and "value" in self.kinds)


def _parse(table: str, device: str) -> Iterator[Hostile]:
    """Rows of words in the order of `Hostile`'s fields; commas within, - for none; # begins a heading."""
    for line in table.strip().splitlines():
        if line.startswith("#"):
            continue
        name, op, hacks, statuses, kinds, stopped_by, unprotected, naive = line.split()
        yield Hostile(
            name,
            op,
            tuple(int(number) for number in _words(hacks)),
            _words(statuses),
            _words(kinds),
            _words(stopped_by),
            unprotected,
            "" if naive == "-" else naive,
            device,
        )


def _words(text: str) -> tuple[str, ...]:
    return () if text == "-" else tuple(text.split(","))


# unprotected: measured on 2026-12-01 with the worker's branch before the guards red_zone, poison, state,
# late_work, out_of_range and decoy were in it; naive: measured on the same day.
_ON_CPU = """
# output without computation
stale_memory softmax 1 fail guard:poison,value,nonfinite,nondeterministic poison,bound caught both
zeros_below_atol softmax 2 fail value bound caught both
mean_predictor softmax 2 fail value bound caught both
dead_parameters rms_norm 3 fail value bound caught both
pass_through relu 4 fail guard:alias,value bound,alias caught both
broadcast_output softmax 5 fail shape form caught both
partial_last_row softmax 6 fail value bound caught both
partial_last_tile relu 6 fail value bound caught both
bf16_downgrade matmul 7 fail value,precision,nonfinite bound caught both
nan_wildcard relu 8 fail nonfinite,value bound caught -
nan_wildcard_in_expected relu 8,26 fail nonfinite,value,guard:mutation blind,bound missed first
silent_launch_failure softmax 9 fail guard:poison,value,nonfinite,nondeterministic poison,bound caught both
fixed_dropout_share dropout 10 fail value,nonfinite bound caught both
fixed_dropout_mask dropout 10 pass,fail value gap caught both
# remembering
cache_by_pointer softmax 11 fail guard:stale,value stale caught both
cache_by_version relu 11 fail guard:stale,value stale caught both
cache_by_id relu 11 fail guard:stale,value stale caught both
cache_by_shape softmax 11 fail guard:stale,value stale caught both
cache_by_fingerprint relu 12 fail guard:stale,value stale caught both
cache_by_checksum relu 12 fail guard:stale,value stale caught both
cache_in_a_file relu 11,15 fail guard:stale,value stale harm both
first_call_weights rms_norm 13 fail guard:stale,value stale caught both
call_count relu 14 fail value,nondeterministic,guard:stale,guard:poison bound,repeat caught both
first_call_of_a_shape relu 14 fail nondeterministic,guard:stale,guard:poison,value repeat,stale caught both
every_third_call relu 14,37 fail nondeterministic,value,guard:stale,guard:poison repeat,bound caught both
batch_and_skip relu 15 fail guard:stale,value stale caught both
shipped_answer relu 17,18 fail value bound caught both
seed_rederivation relu 18 fail value,nonfinite blind,bound caught both
plan_rederivation relu 17,18 fail guard:stale,value stale caught both
imports_reference relu 17,36 pass - harmless caught both
seed_from_parent relu 18,31 fail value sandbox passes both
seed_from_environment relu 18,21 fail value blind passes both
seed_from_store relu 18,28 fail value sandbox passes -
# recognising the judge
shape_conditional softmax 19 fail value bound caught both
value_sniffing_integers relu 20 fail value bound caught both
value_sniffing_negative relu 20 fail value bound caught both
stack_sniffing relu 21 fail value blind passes both
stack_sniffing_gpuemu relu 21 pass,fail - gap caught both
argv_sniffing relu 21 fail value blind passes both
module_sniffing relu 21 fail value blind passes both
# corrupting the judge
patch_allclose relu 23 fail,error value,crash,protocol,exception blind passes both
patch_tensor_methods relu 23 fail,error value,crash,protocol,exception blind caught both
patched_time relu 23 pass,fail guard:state harmless caught both
patched_time_and_hang relu 23 error hang process hangs -
patch_main relu 24 fail value blind caught both
patch_gpuemu relu 24 fail,error value,crash,protocol,exception blind passes both
patch_guards relu 24,30 fail,error guard:mutation,guard:alias,crash,protocol blind,mutation passes both
patched_reference relu 24 fail,error value,crash,protocol,exception blind missed both
default_dtype relu 25 fail guard:state state passes both
global_flags relu 25 fail guard:state state passes both
thread_count relu 25 fail,pass guard:state state caught both
flush_denormals relu 25 pass,fail guard:state,value harmless caught both
gc_theft softmax 26 fail value,nonfinite,nondeterministic,guard:stale,guard:poison blind,bound caught both
frame_theft relu 26 fail value blind caught first
parent_memory relu 31 fail value sandbox passes both
ptrace_parent relu 31 fail value sandbox passes both
exfiltration relu 32 fail value sandbox passes both
forged_stdout relu 27 error crash process lost both
forged_reply relu 27 error,fail protocol,crash,value,hang blind lost -
garbage_descriptors relu 27 error,fail protocol,crash,value,hang blind lost -
close_descriptors relu 27 error,fail crash,protocol,value,hang process lost -
steals_requests relu 27 fail,error value,hang,protocol,crash process caught -
shared_memory_graffiti relu 27,30 fail,error value,guard:mutation,crash blind caught after
fork_and_race relu 27 fail,error value,protocol,crash,nondeterministic,exception process hangs -
os_exit relu 27 error crash process lost both
sys_exit relu 27 error crash,exception process caught both
keyboard_interrupt relu 27 error crash,exception process lost -
atexit_rewrite relu 27 fail value blind missed both
rewrites_store relu 27,28 fail value sandbox harm -
edits_project_files relu 28 fail value sandbox harm both
deletes_project_files relu 28 pass - sandbox harm both
rewrites_itself relu 28 fail value sandbox harm -
plants_module relu 28,32 pass - sandbox harm both
lying_subclass relu 29 fail shape form caught both
lazy_subclass relu 29 fail shape form caught both
lazy_methods relu 29 fail shape,value form,bound passes both
input_mutation relu 30 fail guard:mutation,value mutation,bound caught after
in_place relu 30 fail guard:mutation,guard:alias mutation,alias caught both
input_scratch relu 30 fail guard:mutation mutation caught both
input_restored relu 30 pass - harmless caught both
changes_directory relu 32 pass,fail guard:state harmless caught both
floods_output relu 27,32 pass - process caught both
fills_disk relu 32 pass,fail,error guard:state,crash sandbox caught both
kills_parent relu 32 fail,error value,crash sandbox harm -
leaves_daemon relu 32,34 pass,fail guard:state,guard:late_work sandbox harm both
ignores_signals relu 32 pass,fail guard:state harmless caught both
late_thread relu 34 fail guard:late_work,guard:state,nondeterministic,value late_work passes both
late_answer softmax 34 fail value,guard:late_work,guard:state,nondeterministic bound,late_work caught both
endless_thread relu 34 fail,pass guard:state,guard:late_work state,process hangs -
# other ways
nondeterministic softmax 37 fail nondeterministic repeat caught both
triton_decoy relu 36 fail guard:decoy decoy passes both
triton_decoy_overwritten relu 36 fail guard:decoy decoy passes both
triton_fallback relu 36 pass - harmless caught both
triton_no_mask relu - fail guard:out_of_range,guard:red_zone,value out_of_range passes both
triton_unfilled_mask softmax - fail guard:out_of_range,guard:poison,value,nonfinite out_of_range passes both
reads_past_end relu - fail guard:red_zone,value,nonfinite,nondeterministic red_zone caught both
writes_past_end relu - fail guard:red_zone red_zone passes both
writes_into_gap relu - fail guard:red_zone,guard:mutation red_zone,mutation caught both
accumulates_into_empty matmul - fail guard:poison,value,nonfinite,nondeterministic poison caught both
# ordinary crashes and forms
segfault relu - error crash process lost -
stack_overflow relu - error crash process lost -
abort relu - error crash process lost -
kills_itself relu - error crash process lost -
stops_itself relu - error hang process hangs -
infinite_loop relu - error hang process hangs -
hang_holding_gil relu - error hang process hangs -
deadlock relu - error hang process hangs -
hang_ignoring_signals relu - error hang process hangs -
hang_at_import relu - refused,error hang process hangs -
hang_in_exit relu - pass - process hangs -
sleeps_now_and_then relu - error,fail hang,nondeterministic process hangs both
exit_at_import relu 27 refused,error crash process lost both
exception_at_import relu - refused - harmless caught -
infinite_recursion relu - error exception,crash process caught -
hostile_exception relu - error,unsupported exception process caught -
exception_that_exits relu 27 error crash process lost both
fork_bomb relu - fail,error value,crash,exception sandbox harm -
allocation_10gb relu - error memory,exception,crash sandbox caught both
huge_output_expanded relu - fail,error shape,output_size form,process lost -
huge_output relu - fail,error shape,output_size,memory,exception form,process hangs -
wrong_number_of_outputs relu - fail shape form caught -
many_outputs relu - fail,error shape,output_size,protocol form hangs -
returns_none relu - fail shape form caught -
wrong_dtype relu - fail dtype form caught -
endless_generator relu - fail,error shape,memory,hang,crash,exception form,process hangs -
meta_output relu - fail shape form lost -
freed_output relu - fail,error shape,crash form caught -
alarm relu - error,fail crash,nondeterministic process lost -
crashes_at_random relu - error,fail crash,nondeterministic process lost both
"""

# Not yet run on a device: "unknown" and - stand for that.
_ON_CUDA = """
cuda_stale_memory softmax 1 fail guard:poison,value,nonfinite,nondeterministic poison,bound unknown -
cuda_silent_launch_failure softmax 9 fail guard:poison,value,nonfinite,nondeterministic poison,bound unknown -
cuda_tf32 matmul 7,25 fail guard:state,precision,value state,bound unknown -
cuda_graph_stale relu 16 fail guard:stale,value stale unknown -
cuda_side_stream relu 33 fail guard:late_work,value,nondeterministic late_work unknown -
cuda_late_overwrite relu 33,34 fail guard:late_work,value,nondeterministic late_work unknown -
cuda_background_thread relu 34 fail guard:late_work,value,nondeterministic,guard:state late_work,bound unknown -
cuda_patched_synchronize relu 23,33 fail guard:late_work,value,nondeterministic late_work unknown -
cuda_device_assert relu - error crash,exception process unknown -
cuda_illegal_address relu - error crash,exception process unknown -
cuda_out_of_memory relu - error memory,exception process unknown -
cuda_allocator_scan relu 26,31 fail value blind unknown -
cuda_uninitialised_scratch matmul - fail guard:poison,value,nonfinite,nondeterministic poison unknown -
cuda_endless_kernel relu - error hang process unknown -
"""

HOSTILE = (*_parse(_ON_CPU, "cpu"), *_parse(_ON_CUDA, "cuda"))
