"""Lists the source files of a ``python: module:function`` of a recipe.

The search reads the sources without a run, because an up-to-date build must not execute custom
code. Other files that the code reads must be named under ``files``. Examples are data, and a module
whose name is composed at run time. :mod:`firmwright.models.relax.python_call` rejects a function
that reads an unnamed file in the recipe's folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .installed_modules import find_installed, list_imports


def list_source_files(module: str, folder: Path) -> list[Path]:
    """Return the files of ``module`` and of all its imports except the standard library.

    The sorted files in ``folder`` are first. The files of installed modules follow. Imports inside
    functions count.
    """
    imported, installed = trace_imports(module, folder)
    return [*imported, *find_installed(installed).files]


def trace_imports(module: str, folder: Path) -> tuple[list[Path], set[str]]:
    """Return the files of a module in ``folder``, and the top-level names of its other imports."""
    paths: dict[Path, None] = {}
    others: set[str] = set()
    waiting = [module]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        files = list(files_of(name, folder))
        if not files:
            others.add(name.partition(".")[0])
        for owner, path in files:
            if path not in paths:
                paths[path] = None
                waiting += list_imports(path, owner)
    return sorted(paths), others


def files_of(module: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the names and files of the packages ``a`` and ``a.b``, then of the module ``a.b.c``.

    The name of a package ends in a dot, because its relative imports start at the package.
    """
    parent = folder
    parts = module.split(".")
    for depth, part in enumerate(parts, 1):
        name = ".".join(parts[:depth])
        package = parent / part / "__init__.py"
        plain = parent / f"{part}.py"
        if package.is_file():
            yield f"{name}.", package
        elif plain.is_file():
            yield name, plain
        parent = parent / part
