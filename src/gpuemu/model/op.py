"""What an op declares: named inputs with symbolic shapes, dims, dtypes, parameters, reference, contract."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from gpuemu.dtypes import get_dtype
from gpuemu.errors import OpDefinitionError
from gpuemu.model import expression
from gpuemu.model.canonical import digest
from gpuemu.model.profile import default_profile, get_profile

LAYOUTS = ("contiguous", "transposed", "strided", "row_gap", "offset")


@dataclass(frozen=True)
class Dim:
    """The domain of a symbolic dimension: low <= size <= high, a multiple of `multiple_of`.

    `candidates` replaces the range by an explicit list. `batch` says that elements along this dim are computed
    independently of each other, so a larger size only adds programs: where programs are dear (Triton's
    interpreter), the planner keeps such dims small.
    """

    low: int = 1
    high: int = 4096
    multiple_of: int = 1
    candidates: tuple[int, ...] = ()
    batch: bool = False

    def __post_init__(self) -> None:
        numbers = (self.low, self.high, self.multiple_of, *self.candidates)
        if any(type(number) is not int for number in numbers):
            raise OpDefinitionError(f"Dim{numbers}: sizes must be integers")
        if self.low < 0 or self.high < self.low or self.multiple_of < 1:
            raise OpDefinitionError(
                f"Dim({self.low}, {self.high}, multiple_of={self.multiple_of}) is empty: need 0 <= low <= high"
            )

    def contains(self, size: int) -> bool:
        if self.candidates:
            return size in self.candidates
        return self.low <= size <= self.high and size % self.multiple_of == 0


@dataclass(frozen=True)
class Tensor:
    """An input: shape as space-separated dim names, integers and expressions, e.g. "B S 2*H".

    dtype: a fixed dtype for an input that does not follow the case's dtype ("int64", "bool", "float32").
    low, high: bounds of the values, low <= value < high; an expression of the dims for integers ("V").
    sentinel: a parameter's name whose value is mixed into the values (an ignore index, say).
    """

    shape: str
    dtype: str | None = None
    low: int | float | str | None = None
    high: int | float | str | None = None
    sentinel: str | None = None

    @staticmethod
    def parse(text: str) -> Tensor:
        """A shape string, with an optional dtype after a colon: "R N : bool"."""
        shape, _, dtype = text.partition(":")
        return Tensor(shape.strip(), dtype.strip() or None)

    @cached_property
    def axes(self) -> tuple[str, ...]:
        return tuple(self.shape.split())


@dataclass(frozen=True)
class Contract:
    """What an op promises beyond its values. Defaults are the sound ones for a float kernel.

    profile: arithmetic profile per dtype, or one name for all; None takes P0 for float32 and P1 for 16 bits.
    profile_reason: why a looser profile than the default is right (documented casts of a library, say).
    nan: "report" flags a NaN that the kernel swallows, "propagate" makes it a failure, "ignore" permits it.
    mutates: inputs that the kernel may overwrite (outputs may alias them).
    layouts: layouts that the op promises to accept; None means all of `LAYOUTS`.
    empty: whether zero-sized dims are within the domain when a Dim allows 0.
    """

    profile: str | Mapping[str, str] | None = None
    profile_reason: str = ""
    nan: Literal["report", "propagate", "ignore"] = "report"
    mutates: tuple[str, ...] = ()
    layouts: tuple[str, ...] | None = None
    empty: bool = False

    def __post_init__(self) -> None:
        if self.nan not in ("report", "propagate", "ignore"):
            raise OpDefinitionError(f"Contract(nan={self.nan!r}): use report, propagate or ignore")
        unknown = [layout for layout in self.layouts or () if layout not in LAYOUTS]
        if unknown:
            raise OpDefinitionError(f"Contract(layouts=…) names {unknown}; known: {', '.join(LAYOUTS)}")

    def profile_for(self, dtype: str) -> str:
        """Name of the profile that cases of this dtype are judged under."""
        if isinstance(self.profile, str):
            return self.profile
        if self.profile is not None and dtype in self.profile:
            return self.profile[dtype]
        return default_profile(dtype)


@dataclass(frozen=True)
class Op:
    """An op: schema, reference and contract.

    `reference(*inputs, **params)` is ordinary torch code that returns a tensor or a tuple of tensors; gpuemu
    evaluates it in float64. `dims` values are `Dim`, a list of sizes, or one fixed size. `output_dtypes` names
    the dtype per output where it does not follow the case's dtype.

    Raises:
        OpDefinitionError: the declaration contradicts itself.
    """

    name: str
    inputs: Mapping[str, str | Tensor]
    dims: Mapping[str, Dim | Sequence[int] | int]
    reference: Callable[..., Any] = field(compare=False)
    params: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    dtypes: Sequence[str] = ("float32", "float16", "bfloat16")
    constraints: Sequence[str] = ()
    contract: Contract = Contract()
    output_dtypes: Sequence[str | None] = ()
    value_classes: Sequence[str] | None = None
    doc: str = ""

    def __post_init__(self) -> None:
        if not self.name or not self.name.replace("_", "").replace(".", "").isalnum():
            raise OpDefinitionError(f"op name {self.name!r}: use letters, digits, '_' and '.'")
        if not self.inputs:
            raise OpDefinitionError(f"op {self.name!r} declares no inputs")
        self._check_names()
        for dtype in self.dtypes:
            get_dtype(dtype)
            get_profile(self.contract.profile_for(dtype))
        for name, values in self.params.items():
            if isinstance(values, str) or not isinstance(values, Sequence) or not values:
                raise OpDefinitionError(
                    f"op {self.name!r}: params[{name!r}] must be a non-empty list of values"
                )

    def _check_names(self) -> None:
        dims = self.domains
        texts = {f"inputs[{n!r}]": t.axes for n, t in self.tensors.items()}
        texts["constraints"] = tuple(self.constraints)
        for where, parts in texts.items():
            for part in parts:
                unknown = expression.names(part) - dims.keys()
                if unknown:
                    raise OpDefinitionError(
                        f"op {self.name!r}: {where} names {sorted(unknown)} which dims does not declare; "
                        f"dims has {sorted(dims)}"
                    )
        for name in self.contract.mutates:
            if name not in self.inputs:
                raise OpDefinitionError(f"op {self.name!r}: contract.mutates names {name!r}, which is no input")

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """Inputs in call order."""
        return {n: Tensor.parse(t) if isinstance(t, str) else t for n, t in self.inputs.items()}

    @cached_property
    def domains(self) -> dict[str, Dim]:
        """Dims in declaration order, each as a `Dim`."""
        domains: dict[str, Dim] = {}
        for name, dim in self.dims.items():
            if isinstance(dim, Dim):
                domains[name] = dim
            else:
                sizes = (dim,) if isinstance(dim, int) else tuple(dim)
                if not sizes:
                    raise OpDefinitionError(f"op {self.name!r}: dims[{name!r}] is an empty list")
                domains[name] = Dim(min(sizes), max(sizes), candidates=sizes)
        return domains

    def shape_of(self, input_name: str, dims: Mapping[str, int]) -> tuple[int, ...]:
        """The shape of an input for given dims."""
        shape = tuple(expression.evaluate(axis, dims) for axis in self.tensors[input_name].axes)
        if any(size < 0 for size in shape):
            raise OpDefinitionError(
                f"op {self.name!r}: input {input_name!r} gets shape {list(shape)} for {dict(dims)}; "
                "exclude it by a constraint"
            )
        return shape

    def admits(self, dims: Mapping[str, int]) -> bool:
        """Whether dims lie in their domains and fulfil every constraint."""
        if any(not domain.contains(dims[name]) for name, domain in self.domains.items()):
            return False
        return all(expression.evaluate(text, dims) for text in self.constraints)

    def with_dims(self, **dims: Dim | Sequence[int] | int) -> Op:
        """The same op over other dim domains."""
        return replace(self, dims={**self.dims, **dims})

    @cached_property
    def schema(self) -> dict[str, Any]:
        """Everything but the reference, as plain JSON values."""
        return {
            "name": self.name,
            "inputs": {n: [t.shape, t.dtype, t.low, t.high, t.sentinel] for n, t in self.tensors.items()},
            "dims": {
                n: [d.low, d.high, d.multiple_of, list(d.candidates), d.batch] for n, d in self.domains.items()
            },
            "params": {n: list(v) for n, v in self.params.items()},
            "dtypes": list(self.dtypes),
            "constraints": list(self.constraints),
            "output_dtypes": list(self.output_dtypes),
        }

    @cached_property
    def digest(self) -> str:
        """SHA-256 over schema, contract and the reference.

        Of the reference: its source text (its name if unreadable), plain values of its defaults and closure.
        """
        try:
            source = inspect.getsource(self.reference)
        except (OSError, TypeError):
            source = getattr(self.reference, "__qualname__", repr(type(self.reference)))
        cells = getattr(self.reference, "__closure__", None) or ()
        bound = [cell.cell_contents for cell in cells] + list(
            getattr(self.reference, "__defaults__", None) or ()
        )
        plain = [repr(value) for value in bound if isinstance(value, bool | int | float | str)]
        text = hashlib.sha256("\0".join([source, *plain]).encode()).hexdigest()
        return digest({"schema": self.schema, "contract": repr(self.contract), "reference": text})
