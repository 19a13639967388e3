"""Builds a bundle again from its content, and compares the two bundles file by file.

The recipe, its lock, and descriptions of platforms are in the bundle. The bundle does not contain
the user's files (model, samples, Python), because these files may be large or secret. The digests
in the manifest identify these files in the bundle, in the folder that the user names, and in
mirrors.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from shutil import rmtree

from firmwright.bundle.archive import MAX_DEPTH, BrokenBundleError, check_name
from firmwright.bundle.bundle import Bundle, read_bundle
from firmwright.cluster.order import run_build
from firmwright.data.fetch import MIRROR_VARIABLE, find_in_mirror
from firmwright.errors import UserError
from firmwright.recipe.lock import find_package_versions


class RebuildError(UserError):
    """Raised if a bundle cannot be built again on this machine."""


@dataclass(frozen=True)
class Rebuilt:
    """A bundle that was built again. ``scratch`` is the temporary folder of that build."""

    bundle: Bundle
    scratch: Path

    def is_same(self, other: Bundle) -> bool:
        """Return whether all files are equal. The compression of the archives may differ."""
        return (self.bundle.folder, self.bundle.files) == (other.folder, other.files)

    def remove(self) -> None:
        rmtree(self.scratch)


def rebuild(bundle: Bundle, arguments: Sequence[str] = ()) -> Rebuilt:
    """Build a bundle again in a new folder. ``arguments`` are options of the build.

    Raises RebuildError if tools or files are missing, or if the build fails.
    """
    refuse_other_versions(bundle)
    scratch = Path(tempfile.mkdtemp(prefix="firmwright-rebuild-"))
    recipe, missing = write_inputs(bundle, scratch / "inputs")
    environment = {"FIRMWRIGHT_CACHE": ""}  # without a cache, the build must run
    try:
        arguments = [f"recipe={recipe.name}", f"outdir={scratch / 'build'}", *arguments]
        built = read_bundle(run_build(arguments, recipe.parent, environment))
    except UserError as error:
        rmtree(scratch)
        raise RebuildError("\n".join([str(error), *tell_missing(missing)])) from None
    except (KeyboardInterrupt, SystemExit):  # a signal ended the build
        rmtree(scratch)
        raise
    return Rebuilt(built, scratch)


def refuse_other_versions(bundle: Bundle) -> None:
    """Raise RebuildError if installed Python packages differ from the versions in a bundle."""
    wanted = bundle.manifest["versions"]
    installed = find_package_versions(wanted)
    others = [f"  {n} {wanted[n]}, here is {v}" for n, v in installed.items() if v != wanted[n]]
    if others:
        head = f"{bundle.path} was built with other versions; install these to rebuild it:"
        raise RebuildError("\n".join([head, *others]))


def write_inputs(bundle: Bundle, root: Path) -> tuple[Path, dict[str, str]]:
    """Write the inputs of the build below ``root``, at their paths relative to the recipe.

    Returns the path of the recipe, and a mapping of missing files to digests.
    """
    wanted = bundle.manifest["inputs"]["files"]
    folder = root.joinpath(*["recipe"] * max([1, *map(count_levels_up, wanted)]))
    contents = {hashlib.sha256(data).hexdigest(): data for data in bundle.files.values()}
    missing = {}
    for name, digest in wanted.items():
        data = contents.get(digest)
        if data is None:
            data = find_in_mirror(PurePosixPath(name).name, digest)
        if data is None:
            missing[name] = digest
        else:
            write_input(folder / name, data)
    name = bundle.manifest["name"]
    for file in (f"{name}.yaml", f"{name}.lock", f"{name}.tuned", f"{name}.precision"):
        if f"recipe/{file}" in bundle.files:
            write_input(folder / file, bundle.files[f"recipe/{file}"])
    return folder / f"{name}.yaml", missing


def count_levels_up(name: str) -> int:
    """Return the number of parent folders (``..``) at the start of a file's name.

    Raises BrokenBundleError if no build writes this name, for example an absolute path.
    """
    path = posixpath.normpath(name)
    levels = path.split("/").count("..")
    check_name(path[3 * levels :])
    if levels > MAX_DEPTH:
        raise BrokenBundleError(
            f"the path {name!r} leads more than {MAX_DEPTH} folders up; fetch the bundle again"
        )
    return levels


def write_input(path: Path, data: bytes) -> None:
    scratch = Path(os.path.normpath(path))
    scratch.parent.mkdir(parents=True, exist_ok=True)
    scratch.write_bytes(data)


def tell_missing(missing: Mapping[str, str]) -> list[str]:
    if not missing:
        return []
    head = f"These files are neither in the bundle nor in --files, nor in {MIRROR_VARIABLE}:"
    return [head, *(f"  {name}, sha256 {digest}" for name, digest in missing.items())]


def search_in(folder: Path) -> None:
    """Search a folder for files by digest before the mirrors.

    The build also searches the folder.
    """
    others = os.environ.get(MIRROR_VARIABLE)
    os.environ[MIRROR_VARIABLE] = os.pathsep.join([str(folder.resolve()), *filter(None, [others])])
