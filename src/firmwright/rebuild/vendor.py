"""Runs ``firmwright vendor``, which copies all inputs of recipes to one folder for offline builds.

The subfolder ``files`` has the recipes with all files that they read, at their relative paths.
``mirror`` has the files that recipes name by digest. ``wheels`` has the packages of the installed
environment if ``--tools`` is set.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firmwright.data.fetch import download, find_in_mirror
from firmwright.data.sample_sources import DataFile
from firmwright.documents.whole_file import write_whole
from firmwright.errors import UserError
from firmwright.pipeline.build_inputs import find_packages, to_absolute, user_files
from firmwright.pipeline.build_root import list_package_folders
from firmwright.pipeline.freshness import file_digest
from firmwright.pipeline.job import Job
from firmwright.pipeline.recipe_arguments import find_start
from firmwright.rebuild.wheels import LIST, fill_wheels, list_missing, list_requirements

COMPLETE, INCOMPLETE, WRONG = 0, 1, 2
"""Exit codes: all inputs exist, ``--check`` finds missing inputs, an error."""

FILES, MIRROR, WHEELS = "files", "mirror", "wheels"


def vendor(jobs: Sequence[Job], folder: Path, check: bool, tools: bool) -> int:
    """Write the inputs of jobs to the folder, or ``check`` the folder. Return the exit code.

    The inputs include the wheels of the installed Python packages if ``tools`` is set.
    """
    inputs = {**list_copies(jobs), **list_fetched(jobs)}
    packages = {name for job in jobs for name in find_packages(job)} if tools else set()
    needed = list_requirements(packages) if tools else []
    try:
        if check:
            return check_folder(folder, inputs, needed)
        fill_folder(folder, inputs, jobs)
        return fill_tools(folder / WHEELS, needed) if tools else COMPLETE
    except OSError as error:
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)
    except UserError as error:
        print(error, file=sys.stderr)
    return WRONG


def fill_folder(folder: Path, inputs: Mapping[str, VendoredFile], jobs: Sequence[Job]) -> None:
    (folder / MIRROR).mkdir(parents=True, exist_ok=True)
    for name, each in inputs.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_whole(folder / name, each.read())
    print(f"{len(inputs)} files in {folder}")
    print(f"build in {folder / FILES}, with FIRMWRIGHT_MIRROR={folder / MIRROR}:")
    print("\n".join(f"  firmwright build {shlex.quote(name)}" for name in name_recipes(jobs)))


def fill_tools(wheels: Path, needed: Sequence[str]) -> int:
    number = fill_wheels(wheels, needed)
    print(f"{number} wheels in {wheels}; install without network:")
    options = f"--no-index --find-links {wheels} --require-hashes -r {wheels / LIST}"
    print(f"  python -m pip install {options}")
    return COMPLETE


def check_folder(folder: Path, inputs: Mapping[str, VendoredFile], needed: Sequence[str]) -> int:
    wrong = [name for name, each in sorted(inputs.items()) if not each.is_in(folder / name)]
    lines = [f"{'differs' if (folder / name).exists() else 'missing'}: {name}" for name in wrong]
    lines += [f"missing: {WHEELS}: {pin}" for pin in list_missing(folder / WHEELS, needed)]
    print("\n".join(lines) or "complete")
    return INCOMPLETE if lines else COMPLETE


@dataclass(frozen=True)
class VendoredFile:
    """A file of the user, or a file that a recipe names by digest, and its URL if it has one."""

    digest: str
    name: str
    path: Path | None = None
    url: str | None = None

    def read(self) -> bytes:
        """Return the content of the file.

        Raises UserError if no mirror and no server has the file.
        """
        if self.path is not None:
            return self.path.read_bytes()
        data = find_in_mirror(self.name, self.digest)
        if data is None and self.url is None:
            raise UserError(
                f"{self.name}: no mirror folder has the file, and it has no `url`; add one of them"
            )
        return download(self.url or "", self.digest, "the file") if data is None else data

    def is_in(self, candidate: Path) -> bool:
        return candidate.is_file() and file_digest(candidate) == self.digest


def list_sources(job: Job) -> list[Path]:
    """Return the files of a recipe without the files of installed packages."""
    recipe = job.recipe
    written = (*job.lock_files, *job.tuned_files, *job.precision_files)
    recipe_files = (*recipe.layers.files, *recipe.bases, *user_files(job), *written)
    packages = [*list_package_folders()]
    paths = dict.fromkeys(map(to_absolute, recipe_files))
    return [path for path in paths if not any(path.is_relative_to(p) for p in packages)]


def find_root(jobs: Sequence[Job]) -> Path:
    folders = [path.parent for job in jobs for path in list_sources(job)]
    return Path(os.path.commonpath([to_absolute(find_start()), *folders]))


def list_copies(jobs: Sequence[Job]) -> dict[str, VendoredFile]:
    root = find_root(jobs)
    paths = [path for job in jobs for path in list_sources(job)]
    names = {f"{FILES}/{path.relative_to(root).as_posix()}": path for path in paths}
    return {n: VendoredFile(file_digest(path), path.name, path) for n, path in names.items()}


def name_recipes(jobs: Sequence[Job]) -> list[str]:
    """Return the names of the recipes and their overlays below ``files``."""
    root = find_root(jobs)
    named = (map(to_absolute, job.recipe.layers.files) for job in jobs)
    texts = (":".join(p.relative_to(root).as_posix() for p in files) for files in named)
    return list(dict.fromkeys(texts))


def list_fetched(jobs: Sequence[Job]) -> dict[str, VendoredFile]:
    """Map names in the folder to the files that recipes identify with digests."""
    files: dict[str, VendoredFile] = {}
    for stated in (each for job in jobs for each in find_digests(job.recipe.data)):
        file = DataFile(url=stated.get("url"), sha256=stated["sha256"], name=stated.get("name"))
        name, digest = Path(file.display_name).name, stated["sha256"].lower()
        files[f"{MIRROR}/{digest[:16]}/{name}"] = VendoredFile(digest, name, url=file.url)
    return files


def find_digests(data: Any) -> Iterator[dict[str, Any]]:
    """Yield the mappings of a recipe that name a file by its digest."""
    if isinstance(data, dict):
        if data.get("sha256") and not data.get("path"):
            yield data
        data = list(data.values())
    for part in data if isinstance(data, list) else ():
        yield from find_digests(part)
