"""Bundles that a command names by their recipe, now or in a revision of git."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

from firmwright.bundle.bundle import Bundle, read_bundle
from firmwright.errors import UserError

from .run_build import run_build


def open_bundle(text: str, place: Path, words: Sequence[str] = ()) -> Bundle:
    """Return the bundle of a file, or build that of a recipe: ``net.yaml``, ``HEAD~1:net.yaml``.

    A path behind a revision starts at the top of the repository, as for git. What is built lies in
    the folder ``place``; ``words`` are options of the build. Raises UserError for what cannot be
    read or built.
    """
    if not text.endswith((".yaml", ".yml")) or text.startswith("-"):
        return read_bundle(Path(text))
    revision, _, name = text.rpartition(":")
    start = check_out(revision, place / "files") if revision else Path.cwd()
    try:
        return read_bundle(
            run_build([f"recipe={name}", f"outdir={place / 'build'}", *words], start)
        )
    except UserError as error:
        raise UserError(f"{text}: {error}") from None


def check_out(revision: str, folder: Path) -> Path:
    """Write the files of a revision into a new folder, and return that; UserError where git fails.

    Git's own folders and files that it does not track are not there.
    """
    top = run_git("rev-parse", "--show-toplevel").decode().strip()
    content = run_git("-C", top, "archive", "--format=tar", "--end-of-options", revision)
    folder.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def run_git(*words: str) -> bytes:
    try:
        done = subprocess.run(["git", *words], capture_output=True, check=False)
    except FileNotFoundError:
        raise UserError("revisions need the program git, which is not installed") from None
    if done.returncode:
        raise UserError(f"git: {os.fsdecode(done.stderr).strip()}")
    return done.stdout
