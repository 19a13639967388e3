"""The output of the commands, in files and on terminals, also for failures."""

from __future__ import annotations

import re
import sys
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from firmwright.report.advice import shorten_name

from .conftest import ALL_STAGES, Repository, ran
from .screenshots import PICTURES, take_pictures

pytestmark = pytest.mark.fresh

RECIPE = "recipe=digits.yaml"
BUNDLE = "build/digits/digits-rv32-bare.tar.gz"
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
TOOL = str(Path(sys.executable).with_name("firmwright"))


def test_a_finished_build_prints_its_table_again(built: Repository) -> None:
    done = built.doit("build", RECIPE)
    size = (built.folder / BUNDLE).stat().st_size
    run = built.manifest(BUNDLE)["run"]
    head, *rows, last = done.stdout.splitlines()
    assert head == "digits on rv32-bare"
    labels = ["outputs", "inference", "time", "flash", "RAM", "stack", "MACs", "layers"]
    assert [row.split()[0] for row in rows] == labels
    assert f"{run['instructions']:,} instructions" in rows[1]
    assert last == f"  up to date  {BUNDLE} ({size:,} bytes)"


def test_parallel_stages_tell_what_serial_ones_do(copy_of_built: Repository) -> None:
    done = copy_of_built.doit("-n", "2", "build", RECIPE, "samples=2")
    assert done.returncode == 0, done.stderr
    stages = ran(done.stdout)
    stages.remove("samples")  # only the bundle depends on it
    assert stages == ["reference", "run", "stats", "bundle"]
    lines = done.stdout.splitlines()
    fresh = [s for s in ALL_STAGES[: ALL_STAGES.index("reference")] if s != "samples"]
    assert lines[:2] == ["digits on rv32-bare", f"  up to date  {', '.join(fresh)}"]
    assert "\x1b" not in done.stdout
    manifest = copy_of_built.manifest(BUNDLE)
    run, memory = manifest["run"], manifest["memory"]
    counted = f"{run['instructions']:,} instructions, {run['macs']:,} MACs"
    assert f"  inference  {counted} ({run['emulator']})" in lines
    assert f"  outputs    2 of 2 samples exact, largest difference 0 ({run['reference']})" in lines
    assert f"%  {memory['flash_bytes']:,} of 4,194,304 bytes" in done.stdout
    assert f"%  {memory['ram_bytes']:,} of 1,048,576 bytes" in done.stdout
    assert "  MACs       100.0 % on c" in lines
    slowest = max(manifest["timeline"]["layers"], key=lambda x: x["end"] - x["start"])
    layers = {layer["name"]: layer for layer in manifest["layers"]}
    title = shorten_name(layers[slowest["name"]]["sources"][0])
    (shown,) = (line for line in lines if line.startswith("  layers  "))
    number = int(shown.split()[1].rstrip(":"))
    assert shown.startswith(f"  layers     {number}: {title} ")
    for name in (str(number), title):
        followed = copy_of_built.firmwright("explain", "digits.yaml", "--layer", name)
        assert f": layer {number} of " in followed.stdout
    assert lines[-1].startswith(f"  bundle     {BUNDLE} (")


def test_a_failing_stage_shows_the_compilers_errors(copy_of_built: Repository) -> None:
    recipe = (copy_of_built.folder / "digits.yaml").read_text()
    copy_of_built.write("digits.yaml", recipe + "cflags: [-O9z]\n")
    failed = copy_of_built.doit("build", RECIPE)
    assert failed.returncode == 1
    assert failed.stdout.splitlines()[-1].startswith("✗ objects      compile the C project ")
    first, error, log = failed.stderr.strip().splitlines()
    message = r"digits.yaml:4:10: cflags\[0\]: [\w/]+\.c: the compiler rejected it:"
    assert re.fullmatch(message, first)
    assert error == "  error: invalid integral value '9z' in '-O9z'"
    assert "-O9z" in (copy_of_built.folder / log.rpartition(": ")[2]).read_text()


def test_a_profile_tells_where_the_time_of_each_stage_went(copy_of_built: Repository) -> None:
    done = copy_of_built.doit("build", RECIPE, "samples=2", "profile=1")
    lines = done.stdout.splitlines()
    head, *rows, total = lines[-1 - len(ran(done.stdout)) - 1 :]
    assert head.split() == ["seconds", "total", "imports", "hashing", "work", "programs"]
    assert [row.split()[0] for row in rows] == ran(done.stdout)
    numbers = np.array([[float(word) for word in row.split()[1:]] for row in (*rows, total)])
    assert numbers.min() >= 0
    np.testing.assert_allclose(numbers[:-1].sum(axis=0), numbers[-1], atol=0.03)
    own = numbers[:, 1:4].sum(axis=1)
    assert (own <= numbers[:, 0] * 1.5 + 0.1).all(), "a processor's time is not more than passed"
    assert "seconds  " not in copy_of_built.doit("build", RECIPE, "samples=2", "profile=1").stdout


def test_several_recipes_are_built_side_by_side(copy_of_built: Repository) -> None:
    recipe = (copy_of_built.folder / "digits.yaml").read_text()
    copy_of_built.write("again.yaml", recipe.replace("name: digits", "name: again"))
    done = copy_of_built.doit("build", "recipe=digits.yaml,again.yaml", "samples=1")
    assert done.returncode == 0, done.stderr
    assert "again on rv32-bare" in done.stdout
    assert (copy_of_built.folder / "build/again/again-rv32-bare.tar.gz").is_file()


def test_quiet_prints_nothing(copy_of_built: Repository) -> None:
    done = copy_of_built.run(TOOL, "build", "-q", "digits.yaml", "samples=1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_doit_tells_why_a_stage_would_run_and_what_there_is(built: Repository) -> None:
    printed = built.doit("info", "run:digits-rv32-bare", RECIPE, "samples=2").stdout
    assert "\nstatus     : run\n * run.samples: 3 → 2\n" in printed
    shown = built.doit("help", "build", RECIPE).stdout
    assert all(f" {name}=" in shown for name in ("recipe", "outdir", "platform", "samples"))
    assert "build the bundle of each recipe: digits;" in built.doit("list", RECIPE).stdout
    would = built.doit("clean", "-n", RECIPE).stdout
    assert "  would remove build/digits/rv32-bare/run\n" in would
    assert f"  would remove {BUNDLE}\n" in would
    assert (built.folder / BUNDLE).exists()


@pytest.mark.parametrize("columns", [40, 120])
def test_a_terminal_is_never_overrun(copy_of_built: Repository, columns: int) -> None:
    shown = copy_of_built.run_in_terminal(columns, "doit", "build", RECIPE, "samples=1")
    assert "\x1b[?25l" in shown  # lines that change are below the others
    lines = [CONTROL.sub("", line) for line in re.split(r"[\r\n]+", shown)]
    assert max(map(len, lines)) <= columns
    assert ran("\n".join(lines)) == ["samples", "reference", "run", "stats", "bundle"]


def test_the_pictures_of_the_docs_can_be_taken(copy_of_built: Repository, tmp_path: Path) -> None:
    (copy_of_built.folder / BUNDLE).unlink()
    take_pictures(tmp_path / "pictures", copy_of_built)
    pictures = {path.stem: read_picture(path) for path in (tmp_path / "pictures").iterdir()}
    assert sorted(pictures) == ["build", "failure", "up-to-date"]
    assert all(str(copy_of_built.folder) not in text for text in pictures.values())
    assert all(text.startswith("firmwright $ doit build recipe=") for text in pictures.values())
    assert "pack firmware, sources and manifest" in pictures["build"]
    assert pictures["build"].count(" 0.5 s ") == 1
    assert "samples exact" in pictures["build"]
    assert f"up to date {BUNDLE}" in pictures["up-to-date"]
    assert "error: invalid integral value '9z' in '-O9z'" in pictures["failure"]
    stale = "docs/pictures is stale; `python -m tests.e2e.screenshots` takes them"
    for name, text in pictures.items():
        shown = read_picture(PICTURES / f"{name}.svg")
        assert summarize(text) == summarize(shown), stale


def summarize(words: str) -> str:
    """Return the words of a picture without numbers; for a build, the words after the stages."""
    return re.sub(r"\d[\d,.]*", "#", words[max(0, words.find(" outputs ")) :])


def read_picture(path: Path) -> str:
    """Return the words of an SVG."""
    words = " ".join(re.findall(r">([^<]*)</text>", path.read_text(encoding="utf-8")))
    return " ".join(unescape(words).split())
