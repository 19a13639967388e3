"""Opens bundles from a file, or from a recipe in the current or an earlier revision of git."""

from __future__ import annotations

import os
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from firmwright.bundle.bundle import Bundle, read_bundle
from firmwright.cluster.order import run_build
from firmwright.errors import UserError


def open_bundle(text: str, scratch: Path, arguments: Sequence[str] = ()) -> Bundle:
    """Return the bundle of a file, or build a recipe: ``net.yaml``, ``HEAD~1:net.yaml``.

    Overlays may follow: ``net.yaml:small.yaml``. As in git, a path after a revision starts at the
    top of the repository. The folder ``scratch`` contains the build. ``arguments`` are options of
    the build. Raises UserError if the bundle cannot be read or built.
    """
    if not text.endswith((".yaml", ".yml")) or text.startswith("-"):
        return read_bundle(Path(text))
    head, _, rest = text.partition(":")
    is_revision = bool(rest) and not head.endswith((".yaml", ".yml"))
    revision, name = (head, rest) if is_revision else ("", text)
    try:
        start = check_out(revision, scratch / "files") if revision else Path.cwd()
        arguments = (f"recipe={name}", f"outdir={scratch / 'build'}", *arguments)
        return read_bundle(run_build(arguments, start))
    except UserError as error:
        raise UserError(f"{text}: {error}") from None


def check_out(revision: str, folder: Path) -> Path:
    """Write the files of a revision into a new folder. Return the command's folder inside.

    Untracked files and the folders of git are not written. An empty repository that shares the
    objects writes the files. Therefore git runs only the filters of the user and the system, and no
    hook, filter or monitor of this repository's configuration. Raises UserError if git fails.
    """
    commit = run_git("rev-parse", "--verify", "--end-of-options", revision)
    form = run_git("rev-parse", "--show-object-format")
    scratch = Path(run_git("rev-parse", "--path-format=absolute", "--git-common-dir"))
    with TemporaryDirectory(prefix="firmwright-git-") as empty:
        run_git("init", "--quiet", "--bare", "--template=", f"--object-format={form}", empty)
        Path(empty, "objects/info/alternates").write_text(f"{scratch / 'objects'}\n")
        stored = Path(empty, "files.tar")
        arguments = ("archive", "--format=tar", f"--output={stored}", commit)
        run_git("--git-dir", empty, "-c", f"lfs.storage={scratch / 'lfs'}", *arguments)
        folder.mkdir(parents=True)
        with tarfile.open(stored) as archive:
            archive.extractall(folder, filter="data")
    return folder


def run_git(*arguments: str) -> str:
    """Return the output of a git command. Raises UserError if the command fails.

    The command reads no repository among the tracked files of another repository, and fetches no
    files. Both actions would run programs from the configuration of a repository.
    """
    command = ("git", "-c", "safe.bareRepository=explicit", *arguments)
    variables = {**os.environ, "GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1"}
    try:
        done = subprocess.run(command, env=variables, capture_output=True, check=False)
    except FileNotFoundError:
        raise UserError(
            "revisions need the program git, which is not installed; install it"
        ) from None
    if done.returncode:
        raise UserError(f"git: {os.fsdecode(done.stderr).strip()}")
    return os.fsdecode(done.stdout).removesuffix("\n")
