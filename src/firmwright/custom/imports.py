"""Lists the names that a Python source file imports, without running the file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def list_imports(path: Path, owner: str) -> Iterator[str]:
    """Yield the full names that a source file imports; ``from a import b`` may mean ``a.b``."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return  # the import reports the error
    for node in list_statements(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # `.` is the package of the file. Each further dot is the next outer package.
            around = owner.split(".")[: -node.level] if node.level else []
            base = ".".join([*around, *([node.module] if node.module else [])])
            if base:
                yield base
            yield from (f"{base}.{alias.name}".lstrip(".") for alias in node.names)


def list_statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements of a tree in order, without their expressions, which import no modules.

    A stack replaces recursion, because a chain of ``elif`` may be deeper than Python's limit.
    """
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for blocks in ("cases", "finalbody", "orelse", "handlers", "body"):
            waiting += reversed(getattr(node, blocks, ()))
