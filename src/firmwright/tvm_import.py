"""Checks the versions of TVM before its import, and leaves out slow parts that nothing here uses.

TVM imports PyTorch, where it is installed, for modules that mix both and for a symbol conflict
seen on Windows. That takes 2 to 3 s in each process of a build. Only the importer of PyTorch
programs needs it, and imports it by itself.

TVM's runtime for several machines is in a library that it loads later. So its import fails, and
TVM does without; but the trace of that failure reads the debug symbols of all libraries, for 0.3 s.

Each of 50 modules takes its part of TVM's 2,000 functions, and asks for the names of all. They are
listed once: of the 0.25 s that are left of the import, that is 0.04 s.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.abc import MetaPathFinder
from importlib.metadata import PackageNotFoundError, requires, version

from firmwright.errors import UserError

IMPORTERS = ("tvm_ffi", "tvm")
LEFT_OUT = frozenset({"torch", "tvm.runtime.disco"})
PACKAGES = ("apache-tvm", "apache-tvm-ffi")
"""The packages that ``pyproject.toml`` pins: other versions lack names, or end the process."""


class WrongVersionError(UserError, ImportError):
    """The installed TVM is of another version than firmwright needs."""


def check_versions() -> None:
    """Raise WrongVersionError with the versions of TVM that are found and expected."""
    wrong = [each for each in find_versions() if each[1] != each[2]]
    if wrong:
        found = ", ".join(f"{name} {version}" for name, version, _ in wrong)
        pinned = " ".join(f"{name}=={wanted}" for name, _, wanted in wrong)
        raise WrongVersionError(
            f"wrong version of TVM (found {found}); expected {pinned}; "
            f"run python -m pip install {pinned}"
        )


def find_versions() -> Iterator[tuple[str, str, str]]:
    """Yield the name of each package of TVM, its version or "missing", and the expected version."""
    for requirement in requires("firmwright") or ():
        name, _, wanted = requirement.partition("==")
        if name in PACKAGES:
            try:
                yield name, version(name), wanted
            except PackageNotFoundError:
                yield name, "missing", wanted


class WithoutSlowParts(MetaPathFinder):
    """Finds no slow part while TVM is being imported, and leaves all else to other finders.

    When Python looks for TVM, this checks the versions, and arranges that names are listed once.
    """

    def find_spec(self, name: str, *_: object) -> None:
        if name in IMPORTERS:
            check_versions()
        if name == "tvm":
            list_names_once()
        if name in LEFT_OUT and any(is_initializing(importer) for importer in IMPORTERS):
            raise ModuleNotFoundError(f"TVM does without {name} here", name=name)


def is_initializing(name: str) -> bool:
    """Whether a module's own code runs now; ``import`` itself keeps that in the module's spec."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


def list_names_once() -> None:
    """Have ``import tvm`` list the names of TVM's functions again only where there are more."""
    from tvm_ffi import registry

    list_names, known = registry.list_global_func_names, list[str]()

    def list_known() -> list[str]:
        count = registry.get_global_func("ffi.FunctionListGlobalNamesFunctor")()(-1)
        if count != len(known) or not is_initializing("tvm"):
            known[:] = list_names()
        return known.copy()

    registry.list_global_func_names = list_known


def leave_slow_parts_out() -> None:
    """Have it so for all later imports."""
    sys.meta_path.insert(0, WithoutSlowParts())
