"""Checks the versions of TVM before its import, and skips slow parts that firmwright does not use.

If PyTorch is installed, TVM imports PyTorch for mixed modules and to prevent a symbol conflict on
Windows. The import needs 2 to 3 s in each process of a build. Only the importer of PyTorch programs
needs this import, and the importer imports PyTorch itself.

TVM's runtime for several machines is in a library that TVM loads later. Therefore the import of
this runtime fails, and TVM works without it. However, the trace of the failure reads the debug
symbols of all libraries, which needs 0.3 s.

Each of 50 modules requests some of TVM's 2,000 functions. Each request lists all 2,000 names. This
module lists the names once, which saves 0.04 s of the remaining 0.25 s.
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
"""The packages that ``pyproject.toml`` pins. Other versions lack names, or crash the process."""


class WrongVersionError(UserError, ImportError):
    """Raised if the installed version of TVM is not the version that firmwright needs."""


def check_versions() -> None:
    """Raise WrongVersionError with the found and the expected versions if the versions differ."""
    wrong = [each for each in find_versions() if each[1] != each[2]]
    if wrong:
        installed = ", ".join(f"{name} {version}" for name, version, _ in wrong)
        pinned = " ".join(f"{name}=={wanted}" for name, _, wanted in wrong)
        raise WrongVersionError(
            f"wrong version of TVM (found {installed}); expected {pinned}; "
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
    """Hides the slow parts while TVM is being imported. Other finders find other modules.

    When Python looks for TVM, this finder checks the versions, and makes TVM list its names once.
    """

    def find_spec(self, name: str, *_: object) -> None:
        if name in IMPORTERS:
            check_versions()
        if name == "tvm":
            list_names_once()
        if name in LEFT_OUT and any(is_initializing(importer) for importer in IMPORTERS):
            raise ModuleNotFoundError(f"firmwright imports TVM without {name}", name=name)


def is_initializing(name: str) -> bool:
    """Return whether a module is being executed. ``import`` records this state in its spec."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


def list_names_once() -> None:
    """Make ``import tvm`` list the names of functions again only if their number has changed."""
    from tvm_ffi import registry

    list_names, known = registry.list_global_func_names, list[str]()

    def list_known() -> list[str]:
        count = registry.get_global_func("ffi.FunctionListGlobalNamesFunctor")()(-1)
        if count != len(known) or not is_initializing("tvm"):
            known[:] = list_names()
        return known.copy()

    registry.list_global_func_names = list_known


def leave_slow_parts_out() -> None:
    sys.meta_path.insert(0, WithoutSlowParts())
