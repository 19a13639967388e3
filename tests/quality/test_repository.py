"""The repository itself: lint, types, generated pages, and forbidden contents."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import distributions
from importlib.resources import files
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from firmwright.folders import ON_TOP
from tests.quality import generated

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def run(*command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_format() -> None:
    run("ruff", "format", "--check", ".")


def test_lint() -> None:
    run("ruff", "check", ".")


def test_types() -> None:
    run("mypy")


def test_generated_files_are_fresh() -> None:
    assert [*generated.find_stale()] == [], "`python -m nox -s refresh` writes them"


def test_a_stale_or_missing_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {tmp_path / "fresh": "new", tmp_path / "stale": "new", tmp_path / "missing": "new"}
    (tmp_path / "fresh").write_text("new")
    (tmp_path / "stale").write_text("old")
    monkeypatch.setattr(generated, "generate", lambda: files)
    assert [path.name for path in generated.find_stale()] == ["stale", "missing"]


def test_folders_at_the_top_are_packages() -> None:
    for name in ON_TOP:
        assert files(f"firmwright.{name}") == ROOT / name


def test_no_file_is_a_link() -> None:
    command = ["git", "ls-files", "--stage"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [line for line in listed.splitlines() if line.startswith("120000")] == []


@pytest.mark.parametrize("name", ["constraints.txt", "constraints-test.txt"])
def test_constraints_pin_every_dependency_by_digest(name: str) -> None:
    text = (ROOT / name).read_text()
    pinned = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", text, re.MULTILINE))
    wanted = list(PROJECT["project"]["dependencies"])
    if name == "constraints-test.txt":
        wanted += PROJECT["dependency-groups"]["test"] + PROJECT["dependency-groups"]["docs"]
    names = {re.match(r"[A-Za-z0-9-]+", w)[0].lower() for w in wanted}  # type: ignore[index]
    assert names <= set(pinned)
    for requirement in re.split(r"\n(?=[a-z])", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)):
        assert "--hash=sha256:" in requirement
    assert "://" not in text


def test_extras_that_packages_ask_for_are_pinned_as_such() -> None:
    """Before 23.3, pip treats ``name[extra]`` as another package than the pinned ``name``."""
    text = (ROOT / "constraints-test.txt").read_text()
    pinned = set(re.findall(r"^([a-z0-9-]+)(?:\[\S+\])?==", text, re.MULTILINE))
    found = [d for d in distributions() if canonicalize_name(d.name) in pinned]
    stated = [Requirement(text) for d in found for text in d.requires or ()]
    asked = [r for r in stated if r.extras and (not r.marker or r.marker.evaluate({"extra": ""}))]
    assert asked
    for wanted in asked:
        name = f"{canonicalize_name(wanted.name)}[{','.join(sorted(wanted.extras))}]"
        assert f"\n{name}==" in text


def test_no_file_is_too_long() -> None:
    kinds = {".py", ".j2", ".c"}
    long = {
        str(p.relative_to(ROOT)): n
        for p in tracked()
        if p.suffix in kinds and (n := len(p.read_text(encoding="utf-8").splitlines())) > 400
    }
    assert not long


def test_readme_has_the_two_lines() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    commands = [line for line in lines if line.startswith("    python -m pip install")]
    assert [c.rsplit(" && ", 1)[1] for c in commands] == [
        "doit build recipe=recipes/digits.yaml",
        "python -m pytest",
    ]


def test_general_code_names_no_device() -> None:
    """A device is in its two folders only; a board belongs to the platform that names it.

    ``migration`` names the tools whose settings it reads.
    """
    names = re.compile(r"tidl|c7x|soma|diana|\bmla\b|sima", re.IGNORECASE)
    general = re.compile("(src|tasks|templates)/")
    owned = re.compile(
        "(src/firmwright/devices|templates)/(tidl|c7x|soma_dory|mla)/|templates/boards/"
        "|src/firmwright/migration/"
    )
    found = []
    for path in tracked():
        name = path.relative_to(ROOT).as_posix()
        if general.match(name) and not owned.match(name):
            lines = [name, *path.read_text(encoding="utf-8").splitlines()]
            found += [f"{name}: {line}" for line in lines if names.search(line)]
    assert not found


def test_the_changelog_is_short() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 80
    assert [line for line in lines if len(line) > 120] == []
