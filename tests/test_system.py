"""All modules import, and a build runs, without the calls that only Unix has."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import new_repository
from tests.quality.layers import SOURCE, find_modules

WITHOUT_UNIX = """
import asyncio, builtins, multiprocessing.pool, os, signal, subprocess, sys, tempfile

hidden = {"fcntl", "grp", "inotify_simple", "pwd", "resource", "termios"}
find = builtins.__import__

def find_as_on_windows(name, globals=None, *others, **named):
    if name in hidden and (globals or {}).get("__name__", "").startswith("firmwright"):
        raise ImportError(name)
    return find(name, globals, *others, **named)

builtins.__import__ = find_as_on_windows
for name in ("fork", "getpgid", "getuid", "killpg", "setsid", "sched_getaffinity", "O_NONBLOCK"):
    delattr(os, name)
for name in ("pthread_sigmask", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGXCPU"):
    delattr(signal, name)
for line in sys.stdin:
    __import__(f"firmwright.{line.strip()}")
from firmwright.cli import main

sys.argv = ["firmwright", *sys.argv[1:]]
sys.exit(main(sys.argv[1:]))
"""
UNIX = re.compile(
    r"^ *(import|from) (fcntl|grp|inotify_simple|pwd|resource|termios)|os\.fork\(", re.MULTILINE
)


@pytest.mark.needs("gcc")
def test_a_build_runs_without_the_calls_of_unix(tmp_path: Path) -> None:
    repository = new_repository(tmp_path)
    arguments = ("build", "digits.yaml", "--platform", "host", "--toolchain", "gcc")
    command = [sys.executable, "-c", WITHOUT_UNIX, *arguments]
    names = [name for name in find_modules() if name not in ("__main__", "tasks.dodo")]
    ran = subprocess.run(
        command, cwd=tmp_path, env=repository.environment, input="\n".join(names),
        capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "samples exact" in ran.stdout
    assert "has no locks" in ran.stderr
    assert (tmp_path / "build/digits/digits-host.tar.gz").is_file()


def test_only_one_module_needs_unix() -> None:
    found = {path for path in find_modules().values() if UNIX.search(path.read_text("utf-8"))}
    assert found == {SOURCE / "system.py"}
