"""Tile sizes of a kernel, read from its source text without importing it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

_NAME = re.compile(r"(^|_)(BLOCK|TILE|CHUNK|BM|BN|BK)(_|$|\d)", re.IGNORECASE)
LARGEST = 1 << 14


def read_block_sizes(source: str) -> tuple[int, ...]:
    """Integer constants bound to names such as BLOCK_M, TILE or chunk_size, ascending.

    Looks at assignments, defaults, keyword arguments of launches and the dicts of autotuner configs. A source
    with a syntax error gives none.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return ()
    sizes = {size for node in ast.walk(tree) for name, size in _bindings(node) if _NAME.search(name)}
    return tuple(sorted(size for size in sizes if 1 < size <= LARGEST))


def _bindings(node: ast.AST) -> Iterator[tuple[str, int]]:
    pairs: list[tuple[str, ast.expr | None]] = []
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            together = zip(targets, values, strict=False)
            pairs = [(target.id, value) for target, value in together if isinstance(target, ast.Name)]
        case ast.Assign(targets=targets, value=value):
            pairs = [(target.id, value) for target in targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name), value=value):
            pairs = [(name, value)]
        case ast.keyword(arg=str(name), value=value):
            pairs = [(name, value)]
        case ast.Dict(keys=keys, values=values):
            texts = [key.value if isinstance(key, ast.Constant) else None for key in keys]
            pairs = [(text, value) for text, value in zip(texts, values, strict=True) if isinstance(text, str)]
        case ast.arguments():
            positional = [*node.posonlyargs, *node.args]
            tail = positional[len(positional) - len(node.defaults) :]
            pairs = [(a.arg, d) for a, d in zip(tail, node.defaults, strict=True)]
            pairs += [(a.arg, d) for a, d in zip(node.kwonlyargs, node.kw_defaults, strict=True)]
    for name, value in pairs:
        if isinstance(value, ast.Constant) and type(value.value) is int:
            yield name, value.value
