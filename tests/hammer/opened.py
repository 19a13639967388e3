"""Builds recipes under strace; every file that a build opens must be a declared input.

``python -m tests.hammer.opened recipes/*.yaml`` prints the undeclared files of each recipe.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_cache_path

import firmwright
from firmwright.data.fetch import MIRROR_VARIABLE
from firmwright.folders import TOP
from firmwright.recipe.lock import CORE_PACKAGES

if TYPE_CHECKING:
    from firmwright.pipeline.job import Job

MODULE = "tests.hammer.opened"

PYTHON = os.path.realpath(sys.executable)

CALL = re.compile(
    r'^\d+ +(?P<call>openat|open|execve)\((?:[^"]*, )?"(?P<path>(?:[^"\\]|\\.)*)", '
    r"(?P<flags>[^)]*)\) += +\d+(?:<(?P<real>[^>]*)>)?"
)
"""A call that succeeded, as strace writes it with -y."""

SYSTEM_FILES: Mapping[str, str] = {
    "/proc/*": "state of the machine and of the process",
    "/sys/*": "numbers of the machine's processors and devices",
    "/dev/*": "devices",
    "/etc/ld.so.cache": "the loader finds libraries by it; the libraries themselves count",
    "/etc/debian_version": "Clang asks for the name of the system; all paths are stated",
    "/etc/lsb-release": "the same",
    "*/os-release": "the same",
    "/usr/bin/env": "zig asks which C library the machine has; its own is linked",
    "/etc/locale.alias": "names of locales; programs run in the locale C",
    "*/locale/*": "the same",
    "*/gconv/*": "the same",
    "/usr/share/zoneinfo/*": "the clock of the terminal",
    "/etc/localtime": "the same",
    "/etc/ssl/*": "Python's module ssl; downloads are checked by digest",
    "/etc/nsswitch.conf": "the user's home folder",
    "/etc/passwd": "the same",
    "/bin/*sh": "the shell that Make starts",
    "/usr/bin/*sh": "the same",
    "/usr/bin/make": "runs the compilers of the demo, whose files count",
    "/usr/lib/*.so*": "a library of the system that a program loads to run",
    "/lib/*.so*": "the same",
    "/lib64/*.so*": "the same",
}
"""Files of the system that affect no result, by pattern, each with the reason."""

RUNNERS: Mapping[str, str] = {
    "attrs": "used by jsonschema",
    "certifi": "used by requests; downloads are checked by digest",
    "charset-normalizer": "used by requests",
    "cloudpickle": "used by doit, and by TVM to pass functions on",
    "doit": "decides which stage runs, not its result",
    "idna": "used by jsonschema and requests",
    "inotify-simple": "used by watch",
    "jsonschema": "accepts or rejects recipes",
    "jsonschema-specifications": "used by jsonschema",
    "markdown-it-py": "used by rich",
    "packaging": "compares versions",
    "platformdirs": "finds the user's cache folder",
    "pygments": "used by rich",
    "referencing": "used by jsonschema",
    "requests": "downloads, which are checked by digest",
    "rich": "shows the build on the terminal",
    "rpds-py": "used by jsonschema",
    "setuptools": "its .pth file is read when Python starts",
    "typing-extensions": "types",
    "unicorn": "the emulator; its version is in the stamp",
    "urllib3": "used by requests",
    "ziglang": "the compiler; its record is in the stamp",
}
"""Python packages that are tools or do not affect results, each with the reason."""


@dataclass(frozen=True)
class Trace:
    """The files that a build opened, and the files, folders and packages that it declares."""

    opened: frozenset[str]
    declared: Mapping[str, Collection[str]]

    def list_undeclared(self) -> list[str]:
        """Return the opened files that are not declared, sorted."""
        return sorted({*filter(None, (classify(path, self.declared) for path in self.opened))})


def trace_build(recipe: str, folder: Path) -> Trace:
    """Build a recipe under strace, with the command in a folder."""
    with tempfile.TemporaryDirectory(prefix="firmwright-trace-") as scratch:
        outdir = Path(scratch).resolve() / "build"
        arguments = [recipe, f"outdir={outdir}"]
        log = Path(scratch, "log")
        # With a seccomp filter, only the traced calls stop the processes.
        trace = ["strace", "-f", "--seccomp-bpf", "-qq", "-y", "-s", "4096"]
        trace += ["-e", "trace=openat,open,execve", "-o"]
        build = [sys.executable, "-m", "firmwright", "build", *arguments]
        temporary = outdir.parent / "temporary"
        temporary.mkdir()
        environment = {**os.environ, "FIRMWRIGHT_CACHE": "", "TMPDIR": str(temporary)}
        run([*trace, str(log), *build], folder, environment)
        listing = run([sys.executable, "-m", MODULE, "--declared", *arguments], folder)
        declared = json.loads(listing.splitlines()[-1])
        declared["folders"].append(f"{temporary}/")
        with log.open(encoding="utf-8", errors="replace") as lines:
            return Trace(frozenset(read_opened(lines)), declared)


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str] = os.environ) -> str:
    """Return the output of a command that can also import the package of the tests."""
    root = str(Path(__file__).resolve().parents[2])
    places = os.pathsep.join(filter(None, [environment.get("PYTHONPATH"), root]))
    variables = {**environment, "PYTHONPATH": places}
    done = subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def read_opened(lines: Iterable[str]) -> Iterator[str]:
    """Yield the paths of files that were opened for reading, or run."""
    for line in lines:
        found = CALL.match(line)
        if found is None:
            continue
        written = re.search("O_WRONLY|O_DIRECTORY|O_TRUNC|O_EXCL", found["flags"])
        if found["call"] == "execve":
            yield os.path.realpath(found["path"])
        elif not written:
            yield os.path.realpath(found["real"] or found["path"])


def classify(path: str, declared: Mapping[str, Collection[str]]) -> str:
    """Return an undeclared path, or '' if it is declared, known, or a file of the build itself.

    An undeclared file of a Python package is returned as the name of the package.
    """
    known = path in declared["files"] or path.startswith(tuple(declared["folders"]))
    if known or not Path(path).is_file() or is_custom_file(path) or is_standard(path):
        return ""
    package = find_package(path)
    if package is not None:
        listed = {*CORE_PACKAGES, *declared["packages"]}
        return "" if package in listed or package in RUNNERS else f"package {package}: {path}"
    return "" if any(fnmatch(path, pattern) for pattern in SYSTEM_FILES) else path


def is_custom_file(path: str) -> bool:
    """Return whether a file is firmwright's code or description, in its cache or in a mirror.

    One digest covers all of the code, the values that stages declare cover descriptions, and the
    digests in the recipe cover the mirror. Templates are inputs like the user's files.
    """
    return not path.endswith(".j2") and path.startswith(list_own_folders())


@cache
def list_own_folders() -> tuple[str, ...]:
    """Return the folders of firmwright's code, descriptions and cache, and the mirrors."""
    own = [TOP / name for name in ("recipes", "tasks", "templates", "toolchains")]
    mirrors = [Path(name) for name in os.environ.get(MIRROR_VARIABLE, "").split(os.pathsep) if name]
    places = (Path(firmwright.__file__).parent, user_cache_path("firmwright"), *mirrors, *own)
    return tuple(f"{place}/" for place in places)


def is_standard(path: str) -> bool:
    """Return whether a file is Python's program or standard library, whose version is declared."""
    inside = path.startswith(list_standard_folders())
    python = path == PYTHON or "/libpython" in path
    begun = path in (f"{sys.prefix}/pyvenv.cfg", f"{sys.prefix}/bin/firmwright")
    return python or begun or (inside and "/site-packages/" not in path)


@cache
def list_standard_folders() -> tuple[str, ...]:
    """Return the folders of Python's standard library."""
    places = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
    return tuple(f"{os.path.realpath(place)}/" for place in sorted(places))


def find_package(path: str) -> str | None:
    """Return the name of the installed package that contains a file, or '' for no package."""
    _, found, name = path.rpartition("/site-packages/")
    if not found:
        return None
    top = name.partition("/")[0]
    if top.endswith((".dist-info", ".pth", "__pycache__")):  # the list of packages
        return "setuptools"
    return read_owners().get(top.removesuffix(".libs").removesuffix(".py"), "")


@cache
def read_owners() -> dict[str, str]:
    """Return the package of each module and package at the top level."""
    owners = {}
    for each in distributions():
        lines = (each.read_text("RECORD") or "").splitlines()
        tops = {re.split(r"[/,.]", line)[0] for line in lines}
        owners.update(dict.fromkeys(tops, each.name.lower().replace("_", "-")))
    return owners


def list_declared(arguments: Sequence[str]) -> dict[str, list[str]]:
    """Return the files, result folders and packages that builds declare."""
    from firmwright.pipeline.code_digest import find_templates
    from firmwright.pipeline.snapshot_files import list_job_files
    from firmwright.pipeline.task import find_deciding_packages, list_inputs

    jobs = load_all_jobs(arguments)
    files: set[str] = set()
    packages = {*find_deciding_packages()}
    for job in jobs:
        stages = [stage for stage in job.stages.values() if job.has_stage(stage.name)]
        files.update(path for stage in stages for path in list_inputs(job, stage))
        files.update(path for s in stages for path in find_templates(tuple(s.templates(job))))
        files.update(map(str, list_job_files(job)))
        packages |= job.packages
    real = {os.path.realpath(path) for path in files}
    return {
        "files": sorted(path for path in real if Path(path).is_file()),
        "folders": sorted({f"{job.outdir.resolve()}/" for job in jobs}),
        "packages": sorted(packages),
    }


def list_parts(recipe: str) -> set[tuple[str, str, str]]:
    """Yield each stage of a recipe's builds with the toolchain and each device."""
    return {
        (stage, job.build.toolchain.name, device.target.name)
        for job in load_all_jobs([recipe])
        for stage in job.stages
        for device in job.mix
        if job.has_stage(stage)
    }


def load_all_jobs(arguments: Sequence[str]) -> list[Job]:
    """Return all jobs of a command line of recipes and ``name=value``."""
    from firmwright.pipeline.command_line import load_jobs, set_variables
    from firmwright.tasks.pipeline import NETWORKS_PIPELINE, PIPELINE

    set_variables([name if "=" in name else f"recipe={name}" for name in arguments])
    loaded = load_jobs(PIPELINE, NETWORKS_PIPELINE)
    return [job for each in loaded for job in (*each.all_jobs, *each.members)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", nargs="+")
    parser.add_argument("--declared", action="store_true", help="print what is declared, as JSON")
    given = parser.parse_args()
    if given.declared:
        print(json.dumps(list_declared(given.recipes)))
        return 0
    failed = 0
    for recipe in given.recipes:
        try:
            found = trace_build(recipe, Path.cwd()).list_undeclared()
        except AssertionError as error:
            found = [f"does not build: {str(error).strip().splitlines()[-1]}"]
        failed += bool(found)
        print(f"{recipe}: {len(found)} undeclared", *found, sep="\n  ", flush=True)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
