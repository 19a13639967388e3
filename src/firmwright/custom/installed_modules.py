"""Lists the files and versions of the installed modules that the custom code of a recipe imports.

A small package is listed by its files. A large package and its requirements are listed by their
versions, because reading thousands of files needs seconds per build.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

MAX_FILES = 300
"""The maximum number of files of a package that is listed by its files."""

KNOWN_PACKAGES = {
    "PIL": "pillow",
    "ai_edge_litert": "ai-edge-litert",
    "numpy": "numpy",
    "onnx": "onnx",
    "onnxruntime": "onnxruntime",
    "torch": "torch",
    "tvm": "apache-tvm",
    "tvm_ffi": "apache-tvm-ffi",
}
"""Maps the names of modules to the large packages that firmwright itself uses."""

NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class InstalledCode:
    """The ``files`` whose contents count, and the ``packages`` (pip's names) whose versions count.

    ``folders`` maps the names of the modules and packages whose files count to their folders.
    """

    files: tuple[Path, ...]
    packages: frozenset[str]
    folders: dict[str, Path]


def find_installed(modules: Iterable[str]) -> InstalledCode:
    """Return the installed code of these modules and of all imported modules.

    ``modules`` are names of top-level modules and packages. The result excludes the standard
    library, firmwright and modules that are not installed.
    """
    files: dict[Path, None] = {}
    packages: set[str] = set()
    folders: dict[str, Path] = {}
    waiting = sorted(modules, reverse=True)
    seen = {"firmwright", *sys.stdlib_module_names}
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in KNOWN_PACKAGES:
            packages.add(KNOWN_PACKAGES[name])
            continue
        for location in find_locations(name):
            paths = list_files(location)
            owners = find_owners(name, location.parent)
            packages |= owners
            if len(paths) > MAX_FILES:
                packages |= find_requirements(owners)
                paths = [file for file in [location / "__init__.py"] if file.is_file()]
            else:
                waiting += list_imported(paths, name)
            files.update(dict.fromkeys(paths))
            folders[name] = location if location.is_dir() else location.parent
    return InstalledCode(tuple(files), frozenset(packages), folders)


def find_locations(module: str) -> list[Path]:
    """Return the folders of a package, or the file of a module, without importing it."""
    with suppress(ImportError, ValueError):
        spec = find_spec(module)
        if spec is not None and spec.submodule_search_locations is not None:
            return [
                Path(location)
                for location in spec.submodule_search_locations
                if Path(location).is_dir()
            ]
        if spec is not None and spec.has_location and spec.origin:
            return [Path(spec.origin)]
    return []


def list_files(location: Path) -> list[Path]:
    """Return a file, or the sorted files below a package's folder, at most MAX_FILES + 1."""
    if location.is_file():
        return [location]
    paths = (p for p in location.rglob("*") if "__pycache__" not in p.parts and p.is_file())
    return sorted(islice(paths, MAX_FILES + 1))


def list_imported(files: Iterable[Path], package: str) -> list[str]:
    sources = (path for path in files if path.suffix == ".py")
    imports = (name for path in sources for name in list_imports(path, f"{package}."))
    return sorted({name.partition(".")[0] for name in imports})


@cache
def find_owners(module: str, folder: Path) -> frozenset[str]:
    """Return the names of the packages that pip installed with this module in a folder."""
    named = get_distribution(module)
    if named is not None and Path(str(named.locate_file(""))) == folder:
        return frozenset({named.name})
    wanted = (f"{module}/", f"{module}.")
    return frozenset(
        each.name
        for each in distributions(path=[str(folder)])
        if any(line.startswith(wanted) for line in (each.read_text("RECORD") or "").splitlines())
    )


def find_requirements(packages: Iterable[str]) -> set[str]:
    """Return the names of these packages and of all required installed packages."""
    names: set[str] = set()
    waiting = list(packages)
    while waiting:
        installed = get_distribution(waiting.pop())
        if installed is not None and installed.name not in names:
            names.add(installed.name)
            waiting += list_required(installed)
    return names


def list_required(installed: Distribution) -> Iterator[str]:
    """Yield the names of the packages that a package requires without its extras."""
    for requirement in installed.requires or ():
        name = NAME.match(requirement)
        if name and "extra ==" not in requirement:
            yield name[0]


def get_distribution(name: str) -> Distribution | None:
    with suppress(PackageNotFoundError):
        return distribution(name)
    return None


def list_imports(path: Path, owner: str) -> Iterator[str]:
    """Yield the full names that a source file imports. ``from a import b`` also yields ``a.b``."""
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
    """Yield the statements of a tree in order. Expressions import no modules and are omitted.

    A stack replaces recursion, because a chain of ``elif`` may be deeper than Python's limit.
    """
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for blocks in ("cases", "finalbody", "orelse", "handlers", "body"):
            waiting += reversed(getattr(node, blocks, ()))
