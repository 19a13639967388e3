"""A copy of this process that does a build when it is told to, and says what that read.

A copy has what this process has imported, and nothing that it does is left here. It is made, and
takes its own copy of the memory, before there is something to do.
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
from firmwright.toolchain.compilers import Question

DIED = "the build's process has ended before it was done; the next change builds again"


@dataclass(frozen=True)
class BuildResult:
    """What a build says of itself: what it imported, and what it depends on, if it knows.

    ``answers`` are what programs print, such as a compiler's version, each with the question.
    """

    modules: Sequence[str]
    paths: Sequence[str]
    answers: Sequence[tuple[Question, str]] = ()


class WarmProcess:
    """The other end of a copy, which builds at the word.

    It ends with its build, with this process, and at ctrl-C, without a word of its own.
    """

    def __init__(self, build: Callable[[], BuildResult]) -> None:
        word, self.word = os.pipe()
        self.told, told = os.pipe()
        gc.freeze()  # a collection in the copy would copy all of these objects
        self.process = os.fork()
        if not self.process:
            os.close(self.word)
            os.close(self.told)
            live_as_copy(word, told, build)
        os.close(word)
        os.close(told)

    def __enter__(self) -> WarmProcess:
        return self

    def __exit__(self, *_: object) -> None:
        """Let the copy end, and wait for it: ctrl-C is for both, and it has something to say."""
        os.close(self.word)
        os.close(self.told)
        os.waitpid(self.process, 0)

    def build(self) -> BuildResult:
        """Give the word, and return what the copy tells; nothing, with a message, if it dies."""
        with suppress(BrokenPipeError):
            os.write(self.word, b"!")
        with os.fdopen(self.told, encoding="utf-8", closefd=False) as stream:
            text = stream.read()
        if text:
            return BuildResult(**json.loads(text))
        print(DIED, file=sys.stderr)
        return BuildResult((), ())


def live_as_copy(word: int, told: int, build: Callable[[], BuildResult]) -> None:
    """Be the copy, until the end."""
    try:
        touch_memory()
        if os.read(word, 1):
            with os.fdopen(told, "w", encoding="utf-8") as stream:
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
    """Count a reference to each object: the system copies the memory of a page at the first."""
    gc.unfreeze()
    gc.get_objects()
    gc.freeze()
