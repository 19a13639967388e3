"""The files of a revision are written without the configuration of its repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from firmwright.errors import UserError
from firmwright.rebuild.revisions import check_out


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository whose filter leaves a file ``mark`` next to it."""
    folder = tmp_path / "repository"
    (folder / "networks").mkdir(parents=True)
    (folder / ".gitattributes").write_text("* filter=evil\n")
    (folder / "networks/net.yaml").write_text("model: net.onnx\n")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message=Begin")
    git(folder, "config", "filter.evil.smudge", f"touch {tmp_path}/mark; cat")
    monkeypatch.chdir(folder / "networks")
    return folder


def test_a_revision_is_written_without_filters_of_the_repository(
    repository: Path, tmp_path: Path
) -> None:
    written = check_out("HEAD", tmp_path / "files")
    assert (written / "networks/net.yaml").read_text() == "model: net.onnx\n"
    assert not (tmp_path / "mark").exists()
    git(repository, "archive", "--output=/dev/null", "HEAD")
    assert (tmp_path / "mark").exists()


def test_a_repository_among_the_files_of_another_is_not_read(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "clone", "--quiet", "--bare", str(repository), str(repository / "bare"))
    monkeypatch.chdir(repository / "bare")
    with pytest.raises(UserError, match="cannot use bare repository"):
        check_out("HEAD", tmp_path / "files")


def test_a_missing_revision_is_an_error(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="git: fatal: Needed a single revision"):
        check_out(f"--output={repository}", tmp_path / "files")
