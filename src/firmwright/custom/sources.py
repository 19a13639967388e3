"""Which files of the recipe's folder a ``python: module:function`` model is made of.

Told from the sources alone, without running them: a build with nothing to do must not execute
a user's code. What the sources do not tell (a module's name put together at run time, a data
file) has to be named under ``files``; :mod:`firmwright.models.relax.python_call` refuses a function
that reads anything else in that folder, so that no change of it can go unnoticed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def source_files(module: str, folder: Path) -> list[Path]:
    """Return the files of ``module``, and of all that it imports, that lie in ``folder``; sorted.

    Empty for a module that is installed elsewhere. Imports inside functions count.
    """
    found: dict[Path, None] = {}
    waiting = [module]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for owner, path in files_of(name, folder):
            if path not in found:
                found[path] = None
                waiting += list_imports(path, owner)
    return sorted(found)


def files_of(module: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the packages that importing ``a.b.c`` runs, then its own file, with their names.

    The name of a package ends in a point: what it imports relatively lies inside it.
    """
    place = folder
    parts = module.split(".")
    for depth, part in enumerate(parts, 1):
        name = ".".join(parts[:depth])
        package = place / part / "__init__.py"
        plain = place / f"{part}.py"
        if package.is_file():
            yield f"{name}.", package
        elif plain.is_file():
            yield name, plain
        place = place / part


def list_imports(path: Path, owner: str) -> Iterator[str]:
    """Yield the full names that a source file imports; ``from a import b`` may mean ``a.b``."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return  # the import itself will say what is wrong
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # `.` is the package of the file, each further point the one around it.
            around = owner.split(".")[: -node.level] if node.level else []
            base = ".".join([*around, *([node.module] if node.module else [])])
            if base:
                yield base
            yield from (f"{base}.{alias.name}".lstrip(".") for alias in node.names)
