"""Adds the user's libraries to the generated project."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from firmwright.errors import UserError
from firmwright.ir.kernels import Kernel, LibraryFunction
from firmwright.toolchain.project_folders import SOURCE_SUFFIXES

ARCHIVE_SUFFIXES = (".a", ".lib")


class TakenNameError(UserError):
    """Raised if a library's ``file`` has a name that the project already uses."""

    def __init__(self, file: Path, taken: str) -> None:
        self.file = file
        message = f"the generated project already has a file {taken}; rename your file"
        super().__init__(f"{file}: {message}")


def copy_libraries(files: Sequence[Path], folder: Path) -> None:
    """Copy sources, headers and archives to the network's files, which must already exist.

    Raises TakenNameError if the name of a file, or of its object, already exists.
    """
    for file in files:
        objects = {p.stem: p.name for p in folder.iterdir() if p.suffix in SOURCE_SUFFIXES}
        taken = objects.get(file.stem) if file.suffix in SOURCE_SUFFIXES else None
        if (folder / file.name).exists() or taken:
            raise TakenNameError(file, taken or file.name)
        shutil.copyfile(file, folder / file.name)


def collect_library_functions(kernels: Iterable[Kernel]) -> list[LibraryFunction]:
    """Return the sorted functions of the user that the regions call.

    Raises UserError if two calls of one function pass different numbers of tensors.
    """
    called = sorted({(f.name, f.tensors) for k in kernels for f in k.library_functions})
    names = [name for name, _ in called]
    for name in names:
        if names.count(name) > 1:
            counts = " and with ".join(str(count) for n, count in called if n == name)
            raise UserError(
                f"the library function '{name}' is called with {counts} tensors; use one "
                "function per number of tensors"
            )
    return [LibraryFunction(*entry) for entry in called]
