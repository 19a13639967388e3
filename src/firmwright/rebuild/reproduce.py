"""Builds a recipe twice in different environments, and compares the bundles."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from firmwright.child import run_python
from firmwright.cluster.order import run_build
from firmwright.created_folders import INDEX_FILE
from firmwright.errors import UserError
from firmwright.folders import IS_CHECKOUT, ON_TOP, TOP
from firmwright.pipeline.build_inputs import to_absolute, user_files
from firmwright.pipeline.command_line import NO_USER_CODE, refuses_code
from firmwright.pipeline.job import Job
from firmwright.pipeline.recipe_arguments import find_start
from firmwright.pipeline.recipe_lock import note_distant_bases

INSTALLATION = "a wheel instead of the sources"
EVERYWHERE = (
    *("folder", "umask", "jobs", "time zone", "locale", "hash seed", "HOME", "caches"),
    "compilers' variables",
)
"""The conditions that the second build varies on every machine."""

DIFFOSCOPE = "diffoscope"
"""The program that explains all differences of two archives, for many file formats."""


@dataclass(frozen=True)
class Variation:
    """The conditions of a build. Variables whose value is None are removed."""

    folder: str
    umask: int
    jobs: int
    variables: Mapping[str, str | None]
    wrappers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Maps the name of a condition of the build to the command that changes it."""
    installation: Path | None = None
    """The folder of a second installation of firmwright."""


PLAIN = Variation("plain", 0o022, 1, {"TZ": "UTC", "LC_ALL": "C", "PYTHONHASHSEED": "0"})
"""The conditions of the first build: the user's machine with its caches."""

OTHER = Variation(
    "bätch & söhne: 100% 日本 (copy)",
    0o077,
    4,
    {
        "TZ": "Pacific/Kiritimati",
        "LC_ALL": "tr_TR.UTF-8",  # in Turkish, the capital of i is not I
        "PYTHONHASHSEED": "4242",
        "HOME": "{scratch}/home",  # without caches
        "XDG_CACHE_HOME": None,
        "FIRMWRIGHT_CACHE": "",
        "SOURCE_DATE_EPOCH": "1",
        "OMP_NUM_THREADS": "1",
        "CFLAGS": "-O0 -g",
        "CPATH": "/nonexistent",
    },
    {
        "user and host name": (
            *("unshare", "--map-root-user", "--uts", "sh", "-c"),
            'hostname other.example && exec unshare --user --map-user=4242 "$@"',
            "sh",
        ),
        "clock": ("faketime", "-f", "+25h"),  # a date at which server certificates are still valid
    },
)


def reproduce(job: Job) -> None:
    """Build twice. Raises UserError with the stage and the position if the results differ."""
    scratch = Path(tempfile.mkdtemp(prefix="firmwright-reproduce-"))
    other, left_out = prepare(scratch)
    first, second = (build(job, scratch, variation) for variation in (PLAIN, other))
    ours, theirs = (read_result(folder / job.bundle.name) for folder in (first, second))
    from firmwright.bundle.first_difference import digest_files, find_first

    if find_first(ours, theirs) or ours != theirs:
        lines = [explain(job, first, second), f"both builds are kept in {scratch}"]
        archives = (first / job.bundle.name, second / job.bundle.name)
        raise UserError("\n".join([*lines, *write_all_differences(scratch, *archives)]))
    shutil.rmtree(scratch)
    varied = [*EVERYWHERE, *other.wrappers, *([INSTALLATION] if other.installation else [])]
    job.note(f"varied: {', '.join(varied)}")
    for name, reason in left_out.items():
        job.note(f"not varied: {name}, for {reason}")
    note_distant_bases(job)
    job.note(f"both builds are equal: {job.bundle.name}, sha256 {digest_files(ours)}")


def prepare(scratch: Path) -> tuple[Variation, dict[str, str]]:
    """Return the conditions of the second build, and the reasons for missing variations."""
    usable = {name: command for name, command in OTHER.wrappers.items() if runs(command)}
    missing = {name: command[0] for name, command in OTHER.wrappers.items() if name not in usable}
    left_out = {
        name: f"{program} does not run on this machine" for name, program in missing.items()
    }
    installation = None
    try:
        installation = install_wheel(scratch)
    except UserError as error:
        left_out[INSTALLATION] = str(error)
    return replace(OTHER, wrappers=usable, installation=installation), left_out


def build(job: Job, scratch: Path, variation: Variation) -> Path:
    """Build a copy of the recipe's inputs. Return the folder of the results."""
    folder = scratch / variation.folder
    recipe, start = copy_inputs(job, folder / "recipe")
    files = [os.path.relpath(file, start) for file in recipe]
    stated = variation.variables.items()
    environment = {name: value and value.format(scratch=scratch) for name, value in stated}
    if variation.installation:
        folders = [str(variation.installation), os.environ.get("PYTHONPATH")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, folders))
    outdir = folder / "build"
    arguments = [f"recipe={':'.join(files)}", f"outdir={outdir}"]
    arguments += [f"{name}={value}" for name, value in job.overrides.items()]
    arguments += [f"{NO_USER_CODE}=1"] if refuses_code() else []
    arguments += ["-n", str(variation.jobs)]
    wrapper = [part for command in variation.wrappers.values() for part in command]
    run_build(arguments, start, environment, variation.umask, wrapper)
    return outdir / job.recipe.name if job.members else outdir


def runs(wrapper: Sequence[str]) -> bool:
    try:
        return subprocess.run([*wrapper, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def copy_inputs(job: Job, folder: Path) -> tuple[list[Path], Path]:
    """Copy the user's files that the build reads, with their relative paths.

    Returns the copies of the recipe and of its overlays, and the copy of the command's folder.
    """
    start = to_absolute(find_start())
    named = [*map(to_absolute, job.recipe.layers.files)]
    files = [*named]
    for each in (job, *job.members):
        recipe_files = (each.recipe.path, *each.recipe.bases, *user_files(each), *each.lock_files)
        files += map(to_absolute, recipe_files)
    root = Path(os.path.commonpath([start, *(path.parent for path in files)]))
    for path in dict.fromkeys(files):
        copy = folder / path.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    new_start = folder / start.relative_to(root)
    new_start.mkdir(parents=True, exist_ok=True)
    return [folder / path.relative_to(root) for path in named], new_start


def read_result(bundle: Path) -> dict[str, bytes]:
    """Return the files of a build's bundle. Raises UserError if there is no bundle."""
    from firmwright.bundle.first_difference import read_folder

    if not bundle.is_file():
        raise UserError(
            f"the build did not write {bundle.name}, so no files can be compared; build it "
            "without `reproduce` first"
        )
    return read_folder(bundle)


def explain(job: Job, first: Path, second: Path) -> str:
    """Return the first file that differs in the order of the stages, and its stage."""
    from firmwright.bundle.first_difference import find_first, read_folder

    for name in (name for name in job.stages if job.has_stage(name)):
        scratch = job.folder(name).relative_to(job.outdir)
        ours, theirs = read_folder(first / scratch), read_folder(second / scratch)
        for files in (ours, theirs):
            files.pop(INDEX_FILE, None)
        if difference := find_first(ours, theirs):
            return f"two builds differ, first in the stage {name}: {difference}"
    ours, theirs = (read_result(folder / job.bundle.name) for folder in (first, second))
    difference = find_first(ours, theirs)
    return f"two builds differ, but all of their stages are equal: {difference or 'in their bytes'}"


def write_all_differences(scratch: Path, first: Path, second: Path) -> Iterator[str]:
    """Write all differences with diffoscope if it is installed. Yield the path of the report."""
    if shutil.which(DIFFOSCOPE):
        report = scratch / "differences.txt"
        command = (DIFFOSCOPE, "--text", str(report), str(first), str(second))
        subprocess.run(command, capture_output=True, check=False)
        yield f"all that differs, by {DIFFOSCOPE}: {report}"


FILES = ("pyproject.toml", "build_backend.py", "README.md", "LICENSE")


def install_wheel(scratch: Path) -> Path:
    """Install a wheel of the sources. Return the folder for PYTHONPATH.

    Raises UserError with the reason if there are no sources, or no pip and setuptools.
    """
    if not IS_CHECKOUT:
        raise UserError("firmwright is not an editable installation")
    installed = scratch / "wheel"
    wheel = make_wheel(scratch)
    run_pip("install", "--no-deps", "--no-index", "--target", str(installed), str(wheel))
    return installed


def make_wheel(scratch: Path) -> Path:
    """Build a wheel of a copy of the sources in a folder. Return the path of the wheel.

    Raises UserError if pip fails.
    """
    copy = scratch / "sources"
    made = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", ".*")
    for name in ("src", *ON_TOP):
        shutil.copytree(TOP / name, copy / name, ignore=made)
    for name in FILES:
        shutil.copyfile(TOP / name, copy / name)
    options = "--no-deps", "--no-build-isolation", "--wheel-dir"
    run_pip("wheel", *options, str(copy / "dist"), str(copy))
    (wheel,) = (copy / "dist").glob("*.whl")
    return wheel


def run_pip(command: str, *arguments: str) -> None:
    """Run a pip command. Raises UserError with the last line of the output if the command fails."""
    options = "--quiet", "--disable-pip-version-check"
    done = run_python("pip", command, *options, *arguments, capture_output=True, text=True)
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise UserError(f"pip {command} failed: {lines[-1] if lines else done.returncode}")
