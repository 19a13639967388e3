"""The census of TVM's names that firmwright uses: ``python -m tests.quality.tvm_names``.

A name is an attribute path (``tvm.relax.BlockBuilder``), a Relax operator that a text names
(``operator relax.add``), or a registered function (``function target.build.c``). The command
prints the modules of each name, and the names that the installed TVM lacks.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path

from tests.quality.layers import find_modules

PACKAGES = ("tvm", "tvm_ffi")
OPERATOR = re.compile(r"relax(\.\w+)+")
OPERATOR_TABLE = "relax_names"
"""The function whose argument is a text of operators without ``relax.``."""


def list_used() -> dict[str, list[str]]:
    """Return the modules of firmwright that use each name, both in order."""
    used: dict[str, list[str]] = {}
    for module, path in sorted(find_modules().items()):
        for name in find_names(path):
            used.setdefault(name, []).append(module)
    return dict(sorted(used.items()))


def find_names(path: Path) -> set[str]:
    """Return the names of TVM in a file, annotations included."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    bound = dict(find_bindings(tree))
    nodes = list(ast.walk(tree))
    inner = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    paths = (resolve(node, bound) for node in nodes if id(node) not in inner)
    imported = {name for name in bound.values() if name not in PACKAGES}
    return {*filter(None, paths), *imported, *find_texts(nodes)} - {*PACKAGES}


def find_bindings(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the local names that a file imports from TVM, each with its full name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if is_of_tvm(alias.name):
                    first = alias.name.partition(".")[0]
                    yield (alias.asname, alias.name) if alias.asname else (first, first)
                    yield alias.name, alias.name
        elif isinstance(node, ast.ImportFrom) and is_of_tvm(node.module or ""):
            yield from ((a.asname or a.name, f"{node.module}.{a.name}") for a in node.names)


def is_of_tvm(module: str) -> bool:
    return module.partition(".")[0] in PACKAGES


def resolve(node: ast.AST, bound: Mapping[str, str]) -> str:
    """Return the full name of an attribute path that begins at an imported name, or ""."""
    if isinstance(node, ast.Name):
        return bound.get(node.id, "")
    if isinstance(node, ast.Attribute):
        parent = resolve(node.value, bound)
        return parent and f"{parent}.{node.attr}"
    return ""


def find_texts(nodes: list[ast.AST]) -> Iterator[str]:
    """Yield the operators and registered functions that texts name."""
    for node in nodes:
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called, given = ast.unparse(node.func), str(node.args[0].value)
            if called == OPERATOR_TABLE:
                yield from (f"operator relax.{name}" for name in given.split())
            elif called.endswith("get_global_func"):
                yield f"function {given}"
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and OPERATOR.fullmatch(text):
            yield f"operator {text}"


def is_there(name: str) -> bool:
    """Return whether the installed TVM has a name, also if the name is a prefix of operators.

    Raises ImportError if a module of TVM needs a package that is not installed.
    """
    kind, _, text = name.rpartition(" ")
    tvm = import_module("tvm")
    if kind == "operator":
        return any(known.startswith(text) for known in tvm.ir.Op.list_op_names())
    if kind == "function":
        return tvm.get_global_func(text, allow_missing=True) is not None
    first, *rest = name.split(".")
    found = import_module(first)
    for length, part in enumerate(rest, 2):
        if not hasattr(found, part):
            try:
                import_module(".".join(name.split(".")[:length]))
            except ImportError as error:
                if not is_of_tvm(find_lacking(error)):
                    raise
                return False
        found = getattr(found, part)
    return True


def find_gone(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the missing names, each with the package that TVM lacks for it, or ""."""
    for name in names:
        try:
            if not is_there(name):
                yield name, ""
        except ImportError as error:
            yield name, find_lacking(error)


def find_lacking(error: ImportError) -> str:
    """Return the module that an import lacks; TVM raises other errors after the first one."""
    while isinstance(error.__cause__, ImportError):
        error = error.__cause__
    return error.name or ""


def main() -> int:
    """Print the census, and then the missing names; return 1 if there are any."""
    used = list_used()
    for name, modules in used.items():
        print(f"{name}: {', '.join(modules)}")
    print(f"{len(used)} names in {len({m for each in used.values() for m in each})} modules")
    gone = dict(find_gone(used))
    for name, lacking in gone.items():
        finding = f"not looked at without {lacking}" if lacking else "gone"
        print(f"{finding}: {name}, used in {', '.join(used[name])}")
    return not all(gone.values())


if __name__ == "__main__":
    sys.exit(main())
