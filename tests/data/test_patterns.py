"""Patterns for files: the searched folders, and the limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from firmwright.created_folders import claim_folder
from firmwright.data import patterns
from firmwright.data.patterns import find_matches
from firmwright.errors import UserError

FILES = (
    *("a.bin", "sub/b.bin", "sub/deep/c.bin", "sub/d.txt", ".hidden/e.bin", ".f.bin"),
    *("build/d/g.bin", "venv/pyvenv.cfg", "venv/h.bin"),
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    claim_folder(tmp_path / "top/build")
    for name in FILES:
        (tmp_path / "top" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "top" / name).touch()
    (tmp_path / "top/sub/loop").symlink_to(tmp_path)
    return tmp_path / "top"


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.bin", ["a.bin"]),
        ("*/*.bin", ["sub/b.bin", "venv/h.bin"]),
        ("**/*.bin", ["a.bin", "sub/b.bin", "sub/deep/c.bin"]),
        ("sub/**", ["sub/b.bin", "sub/d.txt", "sub/deep/c.bin"]),
        ("**/deep/?.bin", ["sub/deep/c.bin"]),
        (".*.bin", [".f.bin"]),
        ("build/d/*", ["build/d/g.bin"]),
        ("none/*", []),
    ],
)
def test_what_a_pattern_finds(tree: Path, pattern: str, found: list[str]) -> None:
    assert [p.relative_to(tree).as_posix() for p in find_matches(pattern, tree)] == found


def test_a_pattern_stays_in_the_repository(tree: Path) -> None:
    (tree / ".git").mkdir()
    assert find_matches("../*.bin", tree / "sub") == [tree / "sub/../a.bin"]
    with pytest.raises(UserError, match=r"the pattern '\.\./\.\./\*' leaves the git repository"):
        find_matches("../../*", tree / "sub")


def test_a_pattern_is_relative(tree: Path) -> None:
    with pytest.raises(UserError, match=r"the pattern '/\*\*/\*' is absolute; "):
        find_matches("/**/*", tree)


def test_a_search_has_a_limit(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "MOST_ENTRIES", 10)
    with pytest.raises(UserError, match="searches more than 10 files and folders; begin it with"):
        find_matches("**/*", tree)
