"""Compares the bundles of this checkout, and the outputs of their firmware, with another commit's.

``python -m tests.hammer.commits COMMIT [recipes/kws.yaml ...] [--with COMMIT] [--cache FOLDER]``
builds every recipe of both checkouts, each in a new folder, without the shared cache. The folder
of ``--cache`` keeps the builds of commits, so that a second run compares quickly.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

import numpy as np

from firmwright.bundle.archive import read_archive
from firmwright.report.difference import flatten

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
FOLDERS = ("recipes/*.yaml", "examples/**/*.yaml")

OUTPUTS: Mapping[str, tuple[str, str]] = {
    "outputs": ("run/outputs.npz", "firmware"),
    "expected": ("run/outputs.npz", "reference"),
    "sample": ("run/sample.npz", "input"),
}
"""Arrays that a build stores: the file, and how their names begin."""

C_SUFFIXES = (".c", ".h", ".S", ".ld")
TOKEN = re.compile(
    r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[\w.]+|[^\w\s]', re.DOTALL
)
NUMBERS = re.compile(r"\] = \{([-+{}, \d.xXa-fA-FuUlLpP]*)\} ;")
"""The numbers of an array, in tokens that spaces separate."""
DIGEST = re.compile(
    r"(?<=_)(?:[0-9a-f]{8}|[0-9A-F]{8})(?![0-9a-zA-Z])"
    r"|[0-9a-f]{64}|[0-9a-f]{40}|(?<=\.byte )(?:0x[0-9a-f]{2}(?:, )?){20}"
)
"""A digest in the name of a C function or file, of a recipe or model, or the id of a build."""


@dataclass(frozen=True)
class Build:
    """The files of a bundle, and the arrays of its run, by their content and name."""

    bundle: bytes
    files: Mapping[str, bytes]
    arrays: Mapping[str, Mapping[str, np.ndarray]]
    error: str = ""


class Checkout:
    """The files of a commit, or of this checkout if it is None, and the folder of their builds."""

    def __init__(self, commit: str | None, cache: Path) -> None:
        name = run_git("rev-parse", f"{commit}^{{commit}}").decode()[:12] if commit else "checkout"
        self.folder = cache / name
        self.tree = self.folder / "tree" if commit else ROOT
        if commit and not self.tree.exists():
            with tarfile.open(fileobj=io.BytesIO(run_git("archive", commit))) as packed:
                packed.extractall(self.tree, filter="tar")
        self.write_metadata()

    def write_metadata(self) -> None:
        """Write the entry points of these files, which precede the installed package's."""
        project = tomllib.loads((self.tree / "pyproject.toml").read_text("utf-8"))["project"]
        version = project["version"]
        place = self.folder / "metadata" / f"firmwright-{version}.dist-info"
        place.mkdir(parents=True, exist_ok=True)
        (place / "METADATA").write_text(f"Name: firmwright\nVersion: {version}\n")
        with (place / "entry_points.txt").open("w") as file:
            for group, points in project["entry-points"].items():
                print(f"[{group}]", *(f"{n} = {v}" for n, v in points.items()), sep="\n", file=file)

    def list_recipes(self) -> list[str]:
        """Return the paths of the recipes, relative to the top folder."""
        found = (path for pattern in FOLDERS for path in sorted(self.tree.glob(pattern)))
        recipes = (p for p in found if re.search("^(model|extends):", p.read_text("utf-8"), re.M))
        return [str(path.relative_to(self.tree)) for path in recipes]

    def build(self, recipe: str) -> Build:
        """Return the stored or new build of a recipe."""
        outdir = self.folder / "builds" / recipe.replace("/", "-").removesuffix(".yaml")
        failed = outdir.with_suffix(".log")
        if not failed.exists() and not [*outdir.glob("*.tar.gz")]:
            self.run_build(recipe, outdir, failed)
        if failed.exists():
            return Build(b"", {}, {}, failed.read_text("utf-8").strip().splitlines()[-1])
        return read_build(outdir)

    def run_build(self, recipe: str, outdir: Path, failed: Path) -> None:
        path = os.pathsep.join((str(self.tree / "src"), str(self.folder / "metadata")))
        command = [sys.executable, "-m", "firmwright", "build", recipe, f"outdir={outdir}"]
        variables = {**os.environ, "PYTHONPATH": path, "FIRMWRIGHT_CACHE": ""}
        done = subprocess.run(command, cwd=self.tree, env=variables, capture_output=True, text=True)
        if done.returncode:
            failed.parent.mkdir(parents=True, exist_ok=True)
            failed.write_text(f"exit code {done.returncode}\n{done.stdout}{done.stderr}", "utf-8")


def run_git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True).stdout


def read_build(outdir: Path) -> Build:
    (bundle,) = outdir.glob("*.tar.gz")
    _, files = read_archive(bundle.read_bytes(), str(bundle))
    arrays: dict[str, dict[str, np.ndarray]] = {content: {} for content in OUTPUTS}
    for content, (place, begin) in OUTPUTS.items():
        for path in sorted(outdir.glob(f"**/{place}")):
            with np.load(path, allow_pickle=False) as stored:
                names = [name for name in stored if name.startswith(begin)]
                where = path.relative_to(outdir)
                arrays[content].update({f"{where}:{name}": stored[name] for name in names})
    return Build(bundle.read_bytes(), files, arrays)


def compare(old: Build, new: Build) -> Iterator[tuple[str, str]]:
    """Yield each class of differences of two builds, with a description."""
    for content in OUTPUTS:
        if found := compare_arrays(old.arrays[content], new.arrays[content]):
            yield content, found
    if old.bundle == new.bundle:
        return
    yield "bundle", f"{len(old.bundle)} and {len(new.bundle)} bytes"
    yield from compare_code(old.files, new.files)
    ours, theirs = (group_files(each.files) for each in (old, new))
    for title, only in (("only old", {*ours} - {*theirs}), ("only new", {*theirs} - {*ours})):
        if only:
            yield title, " ".join(sorted(only))
    changed = [name for name in sorted({*ours} & {*theirs}) if ours[name] != theirs[name]]
    for name in changed:
        if name.endswith(".json"):
            yield name, compare_fields(ours[name][0], theirs[name][0])
    others = [name for name in changed if not name.endswith((*C_SUFFIXES, ".json"))]
    if others:
        yield "other files", " ".join(others)


def group_files(files: Mapping[str, bytes]) -> dict[str, list[bytes]]:
    """Return the contents of files by their names without digests."""
    groups: dict[str, list[bytes]] = {}
    for name, data in sorted(files.items(), key=itemgetter(1)):
        groups.setdefault(DIGEST.sub("#", name), []).append(data)
    return groups


def compare_arrays(old: Mapping[str, np.ndarray], new: Mapping[str, np.ndarray]) -> str:
    """Return a description of the values that differ, or ''."""
    found = [f"{name} is in only one build" for name in sorted({*old} ^ {*new})]
    for name in sorted({*old} & {*new}):
        ours, theirs = old[name], new[name]
        if (ours.shape, ours.dtype) != (theirs.shape, theirs.dtype):
            shapes = [f"{each.dtype}{list(each.shape)}" for each in (ours, theirs)]
            found.append(f"{name}: {shapes[0]} and {shapes[1]}")
        elif ours.tobytes() != theirs.tobytes():
            distance = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
            count = np.count_nonzero(distance)
            found.append(f"{name}: {count} of {ours.size} values, at most {distance.max():g}")
    return ", ".join(found)


def compare_code(old: Mapping[str, bytes], new: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """Yield the differences of C files: their code, the numbers of arrays, and comments."""
    ours, theirs = (
        {
            n: [read_code(f) for f in g]
            for n, g in group_files(each).items()
            if n.endswith(C_SUFFIXES)
        }
        for each in (old, new)
    )
    named: dict[str, list[str]] = {"code": [], "constants": [], "comments": []}
    for name in sorted({*ours} & {*theirs}):
        for read, title in enumerate(named):
            if sorted(c[read] for c in ours[name]) != sorted(c[read] for c in theirs[name]):
                named[title].append(name)
                break
    for title, names in named.items():
        if names:
            yield title, " ".join(names)
    gone, came = (
        Counter(array for group in side.values() for code in group for array in code[1])
        for side in (ours, theirs)
    )
    if gone != came:
        yield "arrays", f"{(gone - came).total()} only old, {(came - gone).total()} only new"


def read_code(data: bytes) -> tuple[str, list[str], str]:
    """Return C without comments, white space and numbers of arrays; the arrays; and the text."""
    text = DIGEST.sub("#", data.decode())
    tokens = " ".join(token for token in TOKEN.findall(text) if token[:2] not in ("/*", "//"))
    return NUMBERS.sub("] = { } ;", tokens), NUMBERS.findall(tokens), text


def compare_fields(old: bytes, new: bytes) -> str:
    """Return the upper two levels of the fields of a JSON file that differ."""
    ours, theirs = flatten(json.loads(old)), flatten(json.loads(new))
    changed = {name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name)}
    fields = {".".join(re.split(r"\[\d+\]|\.", name)[:2]).strip(".") for name in changed}
    return " ".join(sorted(fields)) or "order of fields or white space"


def show(recipe: str, old: Checkout, new: Checkout) -> str:
    """Build and compare a recipe in both checkouts, print the differences, and return a summary."""
    builds = {"old": old.build(recipe), "new": new.build(recipe)}
    found = {name: build.error for name, build in builds.items() if build.error}
    outcome = "not built by both"
    if not found:
        found = dict(compare(*builds.values()))
        outcome = "same outputs, other files differ" if found else "same"
        if not {*OUTPUTS}.isdisjoint(found):
            outcome = "outputs differ"
    lines = (f"{title}: {text}" for title, text in found.items())
    count = sum(array.size for array in builds["old"].arrays.get("outputs", {}).values())
    print(f"{recipe}: {outcome} ({count:,} output values)", *lines, sep="\n  ", flush=True)
    return outcome


def main(arguments: Sequence[str]) -> int:
    """Print the differences of each recipe; 1 if a bundle differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.hammer.commits")
    parser.add_argument("commit")
    parser.add_argument("recipes", nargs="*", help="default: all of recipes and examples")
    parser.add_argument("--with", dest="other", help="commit to compare instead of this checkout")
    parser.add_argument("--cache", type=Path, help="folder that keeps the builds of commits")
    given = parser.parse_intermixed_args(arguments)
    with tempfile.TemporaryDirectory(prefix="firmwright-commits-") as name:
        cache = given.cache.resolve() if given.cache else Path(name)
        old = Checkout(given.commit, cache)
        new = Checkout(given.other, cache if given.other else Path(name))
        recipes = given.recipes or sorted({*old.list_recipes(), *new.list_recipes()})
        outcomes = Counter(show(recipe, old, new) for recipe in recipes)
    print(", ".join(f"{count} {outcome}" for outcome, count in outcomes.items()))
    return int(outcomes["same"] < len(recipes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
