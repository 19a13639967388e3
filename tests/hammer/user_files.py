"""Builds and cleans keep the user's files, at any path and with any name.

``python -m tests.hammer.user_files [--count 200] [--seconds S] [--seed 0] [--first 0]``
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import onnx
from onnx import helper

from firmwright.created_folders import ALL, INDEX_FILE, MARKER, read_listed, read_owner
from firmwright.pipeline.build_root import STATE
from tests.hammer.campaign import FindingError, run_campaign
from tests.warm import WarmPython

RECIPE = "model: d.onnx\nplatform: host\ntoolchain: {toolchain}\n"
NAMES = (
    *("model", "samples", "calibration", "quantized", "partition", "kernels", "sources", "bundle"),
    *("host", "rv32-bare", "compared", "d", "build", "fleet", "out", "notes.txt", "model.onnx"),
    *(".model.partial", ".kernels.partial", ".cache", ".recipe", ".recipes", ".snapshots"),
    *(".doit.db", ".doit.db.lock", ".libraries.log", "d-host.tar.gz", "d-host.html"),
    *(MARKER, INDEX_FILE, f".{INDEX_FILE}.partial", "origins.json", ".d-host.published"),
)
"""Names of stages, platforms, recipes, results and firmwright's files."""

CONTENTS = (b"mine\n", b"\0", b"{}", b'{"files": {}}', b'["d-host.tar.gz"]', b"# firmwright\n")

PLACES = ("build", "build/d", "out", "out/deep", "..", ".", "home", "model", "host", "linked",
          ".git", "precious", "build/d/model/x")  # fmt: skip
"""Build folders that a command names, relative to the recipe's folder."""

COMMANDS = (
    ("doit", "model"),
    ("doit", "kernels"),
    ("doit", "sources"),
    ("firmwright", "build", "d.yaml"),
    ("firmwright", "clean", "d.yaml"),
    ("doit", "clean", "-a"),
    ("firmwright", "forget", "d.yaml"),
    ("firmwright", "list", "d.yaml"),
)
CALLS = 5
"""Commands per case; most are builds."""

Content = bytes | str
"""Content of a file, or target of a link."""


class UserFilesHammer:
    """Runs commands among files of the user, and compares the files after each command."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = WarmPython()
        self.environment = {
            **os.environ,
            "HOME": str(folder / "case/repository/home"),
            "XDG_CACHE_HOME": str(folder / "caches"),
            "FIRMWRIGHT_CACHE": str(folder / "shared"),
        }
        self.recipe = RECIPE.format(toolchain="gcc" if shutil.which("gcc") else "zig")
        self.foreign: dict[Path, Content] = {}

    def try_case(self, draw: random.Random) -> str:
        """Write a recipe among files of the user, and run commands; FindingError for a loss."""
        shutil.rmtree(self.folder / "case", ignore_errors=True)
        place = self.folder / "case/repository"
        place.mkdir(parents=True)
        self.foreign = {}
        self.write(place / "d.yaml", self.recipe.encode())
        self.write(place / "dodo.py", b"from firmwright.tasks.dodo import *\n")
        self.write(place / "d.onnx", make_model())
        self.write(place / "precious/kept.txt", b"kept\n")
        for _ in range(draw.randrange(6)):
            self.plant(draw, draw.choice(["", "", "build", "build/d", "out", "model", "host"]))
        codes = [self.call(draw) for _ in range(CALLS)]
        done = sum(code == 0 for code in codes)
        return f"times {done} of {CALLS} commands done" if done else "times every command rejected"

    def call(self, draw: random.Random) -> int:
        """Run a command, and add files among its results; return its exit code."""
        place = self.folder / "case/repository"
        words = list(draw.choice(COMMANDS[: draw.choice((4, 4, len(COMMANDS)))]))
        where = draw.choice(["", "", *PLACES[:4], *PLACES])
        words += ["recipe=d.yaml"] if words[0] == "doit" else []
        words += [f"outdir={where}"] if where else []
        done = self.python.run(words, place, self.environment)
        printed = f"{' '.join(words)}\n{done.stdout}{done.stderr}"
        self.compare(printed)
        if "Traceback" in printed:
            raise FindingError(printed)
        for _ in range(draw.randrange(3)):
            self.plant(draw, draw.choice(list(list_folders(place))))
        return done.returncode

    def plant(self, draw: random.Random, below: str) -> None:
        """Put a file, a folder with a file or a link into the case, unless the path exists."""
        folder = self.folder / "case/repository" / below
        path = folder / draw.choice(NAMES)
        if not is_free(path):
            return
        kind = draw.randrange(4)
        if kind == 0:
            self.write(
                path, draw.choice(("/nowhere", str(self.folder / "case/repository/precious")))
            )
        elif kind == 1:
            self.write(path, draw.choice(CONTENTS))
        elif is_free(path / (name := draw.choice(NAMES))):
            self.write(path / name, draw.choice(CONTENTS))

    def write(self, path: Path, content: Content) -> None:
        """Write a file or a link of the user."""
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            path.symlink_to(content)
        else:
            path.write_bytes(content)
        self.foreign[path] = content

    def compare(self, message: str) -> None:
        """Raise FindingError for a file of the user that has changed."""
        for path, content in self.foreign.items():
            found: Content | None = None
            if path.is_symlink():
                found = str(path.readlink())
            elif path.is_file():
                found = path.read_bytes()
            if found != content:
                raise FindingError(f"{path}: {found!r} instead of {content!r} after {message}")
        precious = self.folder / "case/repository/precious"
        there = {path for path in precious.rglob("*") if path.is_symlink() or not path.is_dir()}
        through = sorted(p for p in there - self.foreign.keys() if not is_in_build(p))
        if through:
            raise FindingError(f"written through a link: {through} after {message}")

    def close(self) -> None:
        self.python.close()


def is_free(path: Path) -> bool:
    """Return whether the user may put a file there: not over a file, nor into scratch folders.

    firmwright's names in its build root, and all files of a cache or an unfinished stage, do not
    belong to the user.
    """
    parents = [path.parent, *path.parent.parents]
    taken = any(p.is_symlink() or p.is_file() or ALL in read_listed(p) for p in parents)
    is_state = read_owner(path.parent) is not None and path.name.startswith(STATE)
    inside_state = any(
        p.name.startswith(STATE) and read_owner(p.parent) is not None for p in parents
    )
    return not (taken or is_state or inside_state or os.path.lexists(path))


def is_in_build(path: Path) -> bool:
    """Return whether a file is in a build folder, also through a linked folder."""
    return any(read_owner(folder) is not None for folder in path.parents)


def list_folders(place: Path) -> Iterator[str]:
    """Yield the folders of a case relative to ``place``, sorted."""
    yield ""
    yield from sorted(str(p.relative_to(place)) for p in place.rglob("*") if p.is_dir())


def make_model() -> bytes:
    """Return a network of one layer."""
    given, made = (helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [1, 4]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "d", [given], [made])
    opset = [helper.make_opsetid("", 17)]
    return bytes(helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString())


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        hammer = UserFilesHammer(Path(folder))
        try:
            return run_campaign("tests.hammer.user_files", hammer.try_case, arguments, 200)
        finally:
            hammer.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
