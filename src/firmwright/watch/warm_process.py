"""Forks a process that builds on request, and reports the files that the build read.

A fork has all modules of this process, and cannot change its state. The fork starts and copies its
memory before a build is requested.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass

from firmwright.process import tell_end
from firmwright.system import accept_signals, fork, hold_signals
from firmwright.toolchain.compilers import Question

DIED = "the build's process ended before the build was done; the next change builds again"


@dataclass(frozen=True)
class BuildResult:
    """The report of a build: the modules that it imported, and the paths on which it depends.

    ``paths`` is empty if the paths are unknown. ``answers`` has the outputs of programs, such as a
    compiler's version, and the question for each output.
    """

    modules: Sequence[str]
    paths: Sequence[str]
    answers: Sequence[tuple[Question, str]] = ()


class WarmProcess:
    """The connection to a fork, which builds on request.

    The fork ends after its build, or without a message when this process ends or at ctrl-C.
    """

    def __init__(self, build: Callable[[], BuildResult]) -> None:
        request, self.request = os.pipe()
        self.report, report = os.pipe()
        gc.freeze()  # without this, a garbage collection in the fork would copy all objects
        with hold_signals():
            self.process = fork()
            if not self.process:
                os.close(self.request)
                os.close(self.report)
                live_as_copy(request, report, build)
        os.close(request)
        os.close(report)

    def __enter__(self) -> WarmProcess:
        return self

    def __exit__(self, *_: object) -> None:
        """End the fork and wait for its end.

        At ctrl-C, which both processes receive, the fork may print an error.
        """
        os.close(self.request)
        os.close(self.report)
        os.waitpid(self.process, 0)

    def build(self) -> BuildResult:
        """Request the build, and return the report. Prints a message if the fork dies."""
        with suppress(BrokenPipeError):
            os.write(self.request, b"!")
        with os.fdopen(self.report, encoding="utf-8", closefd=False) as stream:
            text = stream.read()
        if text:
            return BuildResult(**json.loads(text))
        print(DIED, file=sys.stderr)
        return BuildResult((), ())


def live_as_copy(request: int, report: int, build: Callable[[], BuildResult]) -> None:
    try:
        accept_signals()
        touch_memory()
        if os.read(request, 1):
            with os.fdopen(report, "w", encoding="utf-8") as stream:
                json.dump(asdict(build()), stream)
                sys.stdout.flush()
                sys.stderr.flush()
    except (KeyboardInterrupt, SystemExit):
        pass
    except Exception as error:
        tell_end(error)
    finally:
        os._exit(0)


def touch_memory() -> None:
    """Write each object's reference count now, because the first write copies the object's page."""
    gc.unfreeze()
    gc.get_objects()
    gc.freeze()
