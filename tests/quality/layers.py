"""The layers of the source, and its packages' imports. A package imports only lower layers."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "firmwright"

LAYERS = (
    ("__main__",),
    ("cli", "onnx_backend"),
    ("bundle_commands", "bundle_parsers", "first_commands", "fleet", "task_options"),
    ("stages", "tasks"),
    ("devices",),
    ("terminal",),
    ("migration", "precision", "rebuild", "watch"),
    ("tune",),
    ("pipeline",),
    ("bundle",),
    ("report",),
    ("verify", "compile"),
    ("project", "device"),
    ("compression", "postprocess", "quantize", "planning", "hardware"),
    ("recipe", "emulator", "partition"),
    ("targets",),
    ("models", "lowering"),
    ("builder", "data", "toolchain", "transforms", "codegen"),
    ("cluster", "custom", "shared_cache", "ir"),
    ("process",),
    ("documents", "forked", "web"),
    ("checked_file", "child", "created_folders"),
    ("run_log",),
    ("plugins", "progress", "tvm_import", "user_folders", "wire_format"),
    ("errors", "folders", "system"),
)
"""The packages of the source, the highest layer first. A new package needs a place here."""

Graph = Mapping[str, frozenset[str]]
"""Modules or packages, each with its imports."""


def find_modules() -> dict[str, Path]:
    """Return the files of the source by module name, without the leading ``firmwright.``.

    The top-level ``__init__`` is omitted: it only offers ``build``, and every import runs it.
    """
    modules = {}
    for top in (SOURCE, ROOT / "tasks"):
        for path in sorted(top.rglob("*.py")):
            parts = name_parts(path.with_suffix(""))
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            if parts:
                modules[".".join(parts)] = path
    return modules


def name_parts(path: Path) -> tuple[str, ...]:
    """Return the parts of the name that a path has below ``firmwright``."""
    return path.relative_to(SOURCE if path.is_relative_to(SOURCE) else ROOT).parts


def find_names(path: Path) -> Iterator[str]:
    """Yield the full names that a file imports, also inside functions and for type checking."""
    package = ("firmwright", *name_parts(path.parent))
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            base = (*base, node.module) if node.module else base
            yield from (".".join((*base, alias.name)) for alias in node.names)


def find_module(name: str, modules: Collection[str]) -> str:
    """Return the module with a dotted name or its definition; "" if it is not in firmwright."""
    name = name.removeprefix("firmwright.")
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name


def read_imports() -> Graph:
    """Return the imports of each module, including the imports for type checking."""
    modules = find_modules()
    return {
        module: frozenset(
            find_module(name, modules) for name in find_names(path) if name.startswith("firmwright")
        )
        - {module, ""}
        for module, path in sorted(modules.items())
    }


def find_package(module: str) -> str:
    """Return the package of a module: the folder at the top that contains it."""
    return module.partition(".")[0]


def find_folder(module: str) -> str:
    """Return the folder of a module: the module itself if it is a package or at the top."""
    parent = module.rpartition(".")[0]
    return parent if parent and not SOURCE.joinpath(*module.split(".")).is_dir() else module


def group(imports: Graph, find_group: Callable[[str], str] = find_package) -> Graph:
    """Return the packages, or other groups of modules, that each of them imports."""
    graph: dict[str, frozenset[str]] = {}
    for module, others in imports.items():
        name = find_group(module)
        found = graph.get(name, frozenset()).union(map(find_group, others))
        graph[name] = found - {name}
    return graph


def find_wrong_arrows(packages: Graph) -> list[str]:
    """Return the imports that do not go from a layer to a lower one."""
    layer = {package: number for number, row in enumerate(LAYERS) for package in row}
    return [
        f"{package} imports {other}"
        for package, others in sorted(packages.items())
        for other in sorted(others)
        if layer[package] >= layer[other]
    ]
