"""An op's contract in plain words, every promise and every default."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpuemu.model.canonical import decode_float
from gpuemu.model.contract import DEFAULT_LAYOUTS
from gpuemu.report.text import join_words

_NAN = {
    "report": "a NaN that an input calls for and the kernel swallows is flagged, no failure",
    "propagate": "a NaN that an input calls for and the kernel swallows is a failure",
    "ignore": "a NaN that an input calls for may be swallowed",
    "forbid": "every NaN that the kernel returns is a failure, also where an input holds one",
}
_INFINITY = {
    "exact": "an infinite result must be that infinity",
    "saturate": "an infinite result may be the largest finite number of its sign",
}


def contract_rows(contract: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name and meaning of every promise, profiles aside.

    Args:
        contract: as `Contract.to_json` gives it and a run records it; a promise that an older record does not
            hold is left out.
    """
    makers = {
        "accumulate": lambda dtype: f"sums and contractions are accumulated in {dtype}, or as the profile says",
        "nan": _NAN.__getitem__,
        "masked_value": _describe_masked,
        "infinity": _INFINITY.__getitem__,
        "signed_zero": _either("a zero's sign counts where it is certain", "zeros of either sign are equal"),
        "stable": _either("among equal scores the first is selected", "among equal scores any may be selected"),
        "mutates": _names("inputs are left as they are", "{} may be overwritten, or be an output's memory"),
        "aliases": _names("outputs own their memory", "outputs may share the memory of {}, unwritten"),
        "layouts": _describe_layouts,
        "empty": _either("empty inputs are answered", "empty inputs are outside the domain"),
        "deterministic": _either(
            "calls on the same inputs give the same bits",
            "calls on the same inputs may differ by twice the bound, on exact inputs not at all",
        ),
        "batch_invariant": _names(
            "a part of the batch run alone may give other bits",
            "a slice along {}, run alone, gives the same bits as within the batch",
        ),
    }
    return [(name, make(contract[name])) for name, make in makers.items() if name in contract]


def _either(if_true: str, if_false: str) -> Any:
    return lambda value: if_true if value else if_false


def _names(if_none: str, if_any: str) -> Any:
    return lambda names: if_any.format(join_words(list(names))) if names else if_none


def _describe_masked(value: Any) -> str:
    where = "where the reference makes a NaN itself (0/0, a fully masked row)"
    return f"{where}, no number is due" if value is None else f"{where}, {decode_float(value):g} is due"


def _describe_layouts(layouts: Iterable[str] | None) -> str:
    if layouts is None:
        return f"inputs of every layout are accepted ({', '.join(DEFAULT_LAYOUTS)})"
    return f"inputs are accepted in these layouts: {', '.join(layouts)}"
