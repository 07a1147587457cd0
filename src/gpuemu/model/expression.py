"""A small safe evaluator for shape expressions and constraints: integers, names, arithmetic, comparisons.

Strings such as "2*D", "N//G" or "Hq % Hkv == 0" come from op declarations and files, so they are parsed to a
syntax tree and walked; nothing is ever handed to Python's `eval`.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from gpuemu.errors import OpDefinitionError

_BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_FUNCTIONS: dict[str, Callable[..., int]] = {"min": min, "max": max}


@cache
def parse(text: str) -> ast.expr:
    """The syntax tree of an expression.

    Raises:
        OpDefinitionError: `text` is not an expression of the small language.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise OpDefinitionError(f"cannot parse expression {text!r}: {error.msg}") from None
    _walk(tree, text)
    return tree


def _walk(node: ast.AST, text: str) -> None:
    allowed = (
        ast.BinOp, ast.UnaryOp, ast.USub, ast.Compare, ast.BoolOp, ast.And, ast.Or, ast.Name, ast.Load,
        ast.Constant, ast.Call, *_BINARY, *_COMPARE,
    )  # fmt: skip
    for child in ast.walk(node):
        if not isinstance(child, allowed):
            raise OpDefinitionError(
                f"expression {text!r} uses {type(child).__name__}; allowed are integers, dim names, "
                "+ - * // %, comparisons, and, or, min, max"
            )
        if isinstance(child, ast.Constant) and type(child.value) is not int:
            raise OpDefinitionError(f"expression {text!r} contains {child.value!r}; only integers are allowed")
        if isinstance(child, ast.Call) and not (
            isinstance(child.func, ast.Name) and child.func.id in _FUNCTIONS and not child.keywords
        ):
            raise OpDefinitionError(f"expression {text!r} calls a function other than min and max")


def names(text: str) -> frozenset[str]:
    """Dim names that an expression reads."""
    found = {node.id for node in ast.walk(parse(text)) if isinstance(node, ast.Name)}
    return frozenset(found - _FUNCTIONS.keys())


def evaluate(text: str, values: Mapping[str, int]) -> int:
    """The value of an expression for given dims; comparisons give 1 or 0.

    Raises:
        OpDefinitionError: a name is missing or a division by zero happens.
    """
    return int(evaluate_number(text, values))


def evaluate_number(text: str, values: Mapping[str, Any]) -> int | float:
    """As `evaluate`, for values that need not be integers ("1 - p").

    Raises:
        OpDefinitionError: a name is missing or a division by zero happens.
    """
    try:
        number: int | float = _evaluate(parse(text), values)
        return number
    except KeyError as error:
        raise OpDefinitionError(f"expression {text!r} names unknown dim {error.args[0]!r}") from None
    except ZeroDivisionError:
        raise OpDefinitionError(f"expression {text!r} divides by zero for {dict(values)}") from None


def _evaluate(node: ast.expr, values: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return int(value)  # type: ignore[arg-type]
        case ast.Name(id=name):
            return values[name]
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_evaluate(left, values), _evaluate(right, values))
        case ast.UnaryOp(operand=operand):
            return -_evaluate(operand, values)
        case ast.BoolOp(op=op, values=parts):
            results = (bool(_evaluate(part, values)) for part in parts)
            return int(all(results) if isinstance(op, ast.And) else any(results))
        case ast.Call(func=ast.Name(id=name), args=args):
            return _FUNCTIONS[name](*(_evaluate(arg, values) for arg in args))
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            operands: list[Any] = [_evaluate(left, values), *(_evaluate(c, values) for c in comparators)]
            pairs = zip(ops, operands, operands[1:], strict=False)
            return int(all(_COMPARE[type(op)](a, b) for op, a, b in pairs))
    raise OpDefinitionError(f"expression node {type(node).__name__} is not supported")
