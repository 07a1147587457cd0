"""Rewrites a kernel's Python source so that running it as Python means what Triton's compiler makes of it.

Python and Triton disagree on blocks wherever Python asks for one truth value: `a and b` on two masks is the
second mask in Python and their conjunction in Triton; `if block`, `0 <= i < n`, `not mask`, `min(a, b)` are
equally silent in Triton's own interpreter. Loop variables are 32-bit Triton scalars, not unbounded Python
integers, so that an offset computed from them wraps as on a device. Each rule names the visitor of
`triton/compiler/code_generator.py` (class CodeGenerator) whose meaning it reproduces.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import triton.language as tl
from triton.compiler.code_generator import CodeGenerator

from gpuemu.candidates.triton_builder import BUILDER, SEMANTIC
from gpuemu.candidates.triton_reduction import BlockConditionError
from gpuemu.candidates.triton_types import Handle, get_numpy_dtype

_SUPPORT = "__gpuemu_semantics__"
_FACTORY = "__gpuemu_factory__"
_REWRITTEN = "__gpuemu_rewritten__"
_HAS_CHAINED_COMPARISON = hasattr(CodeGenerator, "_apply_boolean_values")


def _is_tensor(value: Any) -> bool:
    return isinstance(value, tl.tensor)


def _loop_values(start: Any, stop: Any, step: Any) -> Iterator[Any]:
    bounds = [SEMANTIC.to_tensor(bound) for bound in (start, stop, step)]
    if any(not bound.dtype.is_int() for bound in bounds):
        raise TypeError(f"loop bounds must be integers, not {', '.join(str(bound.dtype) for bound in bounds)}")
    kind = bounds[0].dtype
    for bound in bounds[1:]:
        kind = SEMANTIC.integer_promote_impl(kind, bound.dtype)
    numpy_dtype = get_numpy_dtype(kind)
    first, last, stride = (int(bound.handle.data.item()) for bound in bounds)
    turns = range(first, last, stride)
    if BUILDER.guard is not None:
        BUILDER.guard.check_loop((last - first) // stride)  # `len` of a range is bounded
    for value in turns:
        yield tl.tensor(Handle(np.array([value]).astype(numpy_dtype), kind), kind)


def loop_range(first: Any, second: Any = None, step: Any = 1, **_hints: Any) -> Iterator[Any]:
    """`range` and `tl.range` of a kernel: yields scalars of the promoted integer type (visit_For).

    num_stages and other scheduling hints do not change values.
    """
    start, stop = (0, first) if second is None else (first, second)
    return _loop_values(start, stop, 1 if step is None else step)


class Semantics:
    """What rewritten kernels call; one instance serves all of them."""

    @staticmethod
    def assign(value: Any) -> Any:
        """Numbers and constexprs become tensors when they are assigned (visit_Assign)."""
        return SEMANTIC.to_tensor(value, False)

    @staticmethod
    def truth(value: Any) -> Any:
        """A condition: a scalar, never a block (visit_If, visit_IfExp, visit_While)."""
        if isinstance(value, tl.condition):
            value = value.condition
        if not _is_tensor(value):
            return value
        if value.handle.data.size != 1:
            raise BlockConditionError("Boolean value of Tensor with more than one value is ambiguous")
        return bool(value.handle.data.item())

    @staticmethod
    def negate(value: Any) -> Any:
        """`not value` (visit_UnaryOp)."""
        return SEMANTIC.not_(value) if _is_tensor(value) else not value

    @staticmethod
    def goes_on(value: Any, conjunction: bool) -> bool:
        """Whether `and` (`or`) looks at its next operand: always after a tensor (visit_BoolOp)."""
        return _is_tensor(value) or bool(value) is conjunction

    @staticmethod
    def join(left: Any, right: Any, conjunction: bool) -> Any:
        """`left and right` (`or`), both evaluated (visit_BoolOp)."""
        if not _is_tensor(left):
            return right
        if not _is_tensor(right):
            return left if bool(right) is conjunction else right
        return (SEMANTIC.logical_and if conjunction else SEMANTIC.logical_or)(left, right)

    @staticmethod
    def function(value: Any) -> Any:
        """Python builtins that mean something else in a kernel (CodeGenerator.builtin_namespace)."""
        if value is builtins.range:
            return loop_range
        if value is builtins.min or value is builtins.max:
            return _extremum(value)
        return value


def _extremum(python: Callable[..., Any]) -> Callable[..., Any]:
    name = "minimum" if python is builtins.min else "maximum"

    def extremum(*values: Any) -> Any:
        values = tuple(v.value if isinstance(v, tl.constexpr) else v for v in values)
        if not any(_is_tensor(v) for v in values):
            return python(*values)
        result = values[0]
        for value in values[1:]:
            result = getattr(tl, name)(result, value)
        return result

    return extremum


class _Rewriter(ast.NodeTransformer):
    def __init__(self) -> None:
        self._temporaries = 0

    def _call(self, name: str, *arguments: ast.expr) -> ast.Call:
        function = ast.Attribute(ast.Name(_SUPPORT, ast.Load()), name, ast.Load())
        return ast.Call(function, list(arguments), [])

    def _temporary(self) -> str:
        self._temporaries += 1
        return f"__gpuemu_value_{self._temporaries}__"

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        if len(node.targets) > 1:
            raise ValueError("Multiple assignments are not supported")
        node.value = self._call("assign", node.value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name):
            return node
        value = ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value)
        return ast.Assign([node.target], self._call("assign", value))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        if node.value is not None and "constexpr" not in ast.unparse(node.annotation):
            node.value = self._call("assign", node.value)
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        return self._with_test(node)

    def visit_While(self, node: ast.While) -> ast.AST:
        return self._with_test(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        return self._with_test(node)

    def _with_test(self, node: Any) -> ast.AST:
        self.generic_visit(node)
        node.test = self._call("truth", node.test)
        return node  # type: ignore[no-any-return]

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return self._call("negate", node.operand) if isinstance(node.op, ast.Not) else node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        conjunction = ast.Constant(isinstance(node.op, ast.And))
        result = node.values[0]
        for value in node.values[1:]:
            name = self._temporary()
            first = ast.NamedExpr(ast.Name(name, ast.Store()), result)
            joined = self._call("join", ast.Name(name, ast.Load()), value, conjunction)
            result = ast.IfExp(self._call("goes_on", first, conjunction), joined, ast.Name(name, ast.Load()))
        return result

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        if len(node.ops) == 1:
            return self.generic_visit(node)
        if not _HAS_CHAINED_COMPARISON:
            raise NotImplementedError("simultaneous multiple comparison is not supported by this Triton")
        left = node.left
        parts: list[ast.expr] = []
        for op, right in zip(node.ops, node.comparators, strict=True):
            name = self._temporary()
            middle: ast.expr = right
            if right is not node.comparators[-1]:
                middle = ast.NamedExpr(ast.Name(name, ast.Store()), right)
            parts.append(ast.Compare(left, [op], [middle]))
            left = ast.Name(name, ast.Load())
        return self.visit_BoolOp(ast.BoolOp(ast.And(), parts))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in ("range", "min", "max"):
            node.func = self._call("function", node.func)
        return node


def rewrite(function: Any) -> Callable[..., Any]:
    """The function that means, run as Python, what `function` means compiled by Triton.

    Globals stay shared with the original, closure cells too; defaults and annotations are the original's.
    A function whose source cannot be read is returned as it is (the compiler would refuse it).
    """
    # Kept on the function itself: a table here would keep every kernel's module alive.
    known: Callable[..., Any] | None = function.__dict__.get(_REWRITTEN)
    if known is None:
        known = function.__dict__[_REWRITTEN] = _rewrite(function)
    return known


def _rewrite(function: types.FunctionType) -> Callable[..., Any]:
    try:
        lines, first_line = inspect.getsourcelines(function)
    except (OSError, TypeError):
        return function
    tree = ast.parse(textwrap.dedent("".join(lines)))
    definition = tree.body[0]
    if not isinstance(definition, ast.FunctionDef):
        return function
    ast.increment_lineno(tree, first_line - 1)
    definition.body = [_Rewriter().visit(statement) for statement in definition.body]
    definition.decorator_list = []
    captured = {_SUPPORT: types.CellType(Semantics)}
    captured.update(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    code = _compile(definition, tuple(captured), function.__code__.co_filename)
    closure = tuple(captured[name] for name in code.co_freevars)
    result = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    result.__kwdefaults__ = function.__kwdefaults__
    result.__annotations__ = function.__annotations__
    return result


def _compile(definition: ast.FunctionDef, captured: tuple[str, ...], file_name: str) -> types.CodeType:
    """Code of `definition`, nested in a factory whose parameters are the captured names, so they stay free."""
    parameters = ast.arguments([], [ast.arg(name) for name in captured], None, [], [], None, [])
    factory = ast.copy_location(ast.FunctionDef(_FACTORY, parameters, [definition], []), definition)
    module = ast.fix_missing_locations(ast.Module([factory], []))
    compiled = compile(module, file_name, "exec", dont_inherit=True)
    for path in (_FACTORY, definition.name):
        compiled = next(c for c in compiled.co_consts if isinstance(c, types.CodeType) and c.co_name == path)
    return compiled
