"""Repositories of a user, in new folders, that the real commands build."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import shutil
import struct
import subprocess
import sys
import tarfile
import termios
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.warm import WarmPython

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "digits"


@cache
def start_python() -> WarmPython:
    """Return this session's process that has imported all modules; it ends with the session."""
    return WarmPython()


@dataclass
class Repository:
    """A folder with recipes, in which ``doit`` and ``firmwright`` run as they do for a user."""

    folder: Path
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=1200,
        )

    def run_in_terminal(self, columns: int, *command: str) -> str:
        """Return the output of a Python module's command on a terminal of this many columns."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        inherited = self.environment.items()
        environment = {k: v for k, v in inherited if k not in ("COLUMNS", "NO_COLOR")}
        environment["TERM"] = "xterm-256color"
        with subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=self.folder,
            env=environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        ):
            os.close(theirs)
            parts = []
            with suppress(OSError):  # the other end is closed
                while part := os.read(ours, 1 << 16):
                    parts.append(part)
            os.close(ours)
        return b"".join(parts).decode()

    def doit(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.start("doit", *arguments)

    def firmwright(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.start("firmwright", *arguments)

    def start(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run our program in a copy of one process, or in a new Python if it needs one."""
        folders = self.environment.get("PYTHONPATH", "").split(os.pathsep)
        own = ("firmwright", "sitecustomize.py")  # a copy has imported them from elsewhere
        if any(Path(folder, name).exists() for folder in filter(None, folders) for name in own):
            return self.run(sys.executable, "-m", program, *arguments)
        return start_python().run([program, *arguments], self.folder, self.environment)

    def build(self, *arguments: str) -> list[str]:
        """Build and return the names of the stages that ran."""
        done = self.doit("build", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return ran(done.stdout)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def manifest(self, bundle: str) -> dict[str, Any]:
        path = self.folder / bundle
        with tarfile.open(path) as archive:
            stem = path.name.removesuffix(".tar.gz")
            member = archive.extractfile(f"{stem}/manifest.json")
            assert member is not None
            manifest: dict[str, Any] = json.load(member)
            return manifest


def ran(output: str) -> list[str]:
    """Return the stages that the output reports as run: a plain line with a time for each."""
    lines = [line.split() for line in output.splitlines()]
    return [words[1] for words in lines if words[:1] == ["✓"]]


ALL_STAGES = ["model", "samples", "partition", "kernels", "advice", "plan", "sources", "objects",
              "firmware", "reference", "run", "stats", "bundle"]  # fmt: skip
HOST_STAGES = [stage for stage in ALL_STAGES if stage != "stats"]
"""The stages on the host: no emulator runs its programs, so instructions are not counted."""

DIGITS = """\
model: digits.onnx
target: c
run: {inputs: inputs.npz, samples: 3}
"""


def new_repository(folder: Path) -> Repository:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("digits.onnx", "inputs.npz"):
        shutil.copyfile(EXAMPLE / name, folder / name)
    repository = Repository(folder)
    repository.write("dodo.py", "from firmwright.tasks.dodo import *\n")
    repository.write("digits.yaml", DIGITS)
    return repository


def repository_of_example(name: str, folder: Path) -> Repository:
    """Return a copy of an example's folder as a separate repository."""
    left_by_others = shutil.ignore_patterns("__pycache__", "build")
    shutil.copytree(ROOT / "examples" / name, folder / name, ignore=left_by_others)
    repository = Repository(folder / name)
    repository.write("dodo.py", "from firmwright.tasks.dodo import *\n")
    return repository


@pytest.fixture(scope="module", autouse=True)
def share_results(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Share the results of stages with the builds of other tests.

    A module marked ``fresh`` shares no results, because its tests check that each stage runs.
    """
    with pytest.MonkeyPatch.context() as patch:
        place = ""
        if request.node.get_closest_marker("fresh") is None:
            base = tmp_path_factory.getbasetemp()
            worker = "PYTEST_XDIST_WORKER" in os.environ
            place = str((base.parent if worker else base) / "cache")
        patch.setenv("FIRMWRIGHT_CACHE", place)
        yield


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return new_repository(tmp_path / "repository")


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A repository whose digits recipe is built, for tests that only read."""
    repository = new_repository(tmp_path_factory.mktemp("built"))
    assert repository.build("recipe=digits.yaml") == ALL_STAGES
    return repository


@pytest.fixture
def copy_of_built(built: Repository, tmp_path: Path) -> Repository:
    return copy_of(built, tmp_path)


def copy_of(built: Repository, folder: Path) -> Repository:
    """Return a copy of a repository with its file times; the caller may change it.

    The caller's module decides whether the builds share results.
    """
    shutil.copytree(built.folder, folder / "copy", copy_function=shutil.copy2)
    shared = {"FIRMWRIGHT_CACHE": os.environ.get("FIRMWRIGHT_CACHE", "")}
    return Repository(folder / "copy", built.environment | shared)


MLPERF_TINY = ("resnet8", "kws", "vww", "ad")
OTHERS = (("resnet8-qdq", "rv32-bare"), ("kws-qdq", "cortex-m4-bare"), ("kws-match", "rv32-bare"),
          ("ad-match", "rv32-bare"), ("dscnn-nemo", "cortex-m4-bare"))  # fmt: skip


def need_mirrored(recipe: str) -> None:
    """Skip the test unless a mirror folder holds every file that the recipe names by digest."""
    from firmwright.data.fetch import find_in_mirror
    from tests.ready_recipes import read_ready

    for digest in digests(read_ready(recipe)):
        if find_in_mirror("", digest) is None:
            pytest.skip(f"no folder of FIRMWRIGHT_MIRROR holds the file {digest} of {recipe}")


@pytest.fixture
def mirror() -> Callable[[str], None]:
    """Return the function that skips a test if files of a recipe are missing."""
    return need_mirrored


def digests(part: Any) -> Iterator[str]:
    """Yield every SHA-256 that a recipe states."""
    if isinstance(part, dict):
        if "sha256" in part:
            yield part["sha256"]
        part = list(part.values())
    for entry in part if isinstance(part, list) else ():
        yield from digests(entry)
