"""A process that follows a lifeline ends with it, and keeps no other pipe open."""

from __future__ import annotations

import os
import select
import subprocess
import sys

from firmwright.child import hold_lifeline

FOLLOW = """
import sys, time
from firmwright.child import follow_lifeline
follow_lifeline(int(sys.argv[1]))
time.sleep(float(sys.argv[2]))
"""
LIMIT = 60
"""Seconds after which a test fails."""


def start(watched: int, seconds: int, *inherited: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", FOLLOW, str(watched), str(seconds)],
        pass_fds=(watched, *inherited),
        start_new_session=True,
    )


def test_a_process_ends_with_its_lifeline() -> None:
    with hold_lifeline() as watched:
        process = start(watched, 10 * LIMIT)
    assert process.wait(LIMIT) < 0


def test_the_reader_of_another_pipe_does_not_wait_for_the_lifeline() -> None:
    """A wrapper such as faketime waits until no process below it holds its pipe."""
    end, other = os.pipe()
    with hold_lifeline() as watched:
        process = start(watched, 0, other)
        os.close(other)
        assert process.wait(LIMIT) == 0
        readable, _, _ = select.select([end], [], [], LIMIT)
        assert readable  # no process holds the other end
    os.close(end)
