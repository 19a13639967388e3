"""Tries a case in a child process, so a crash, a loop or a lack of memory ends only the child."""

from __future__ import annotations

import faulthandler
import multiprocessing
import resource
import signal
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection

from tests.hammer.campaign import FindingError


def try_in_child(case: Callable[[], str], seconds: float, memory: int) -> str:
    """Return the result of a call in a copy of this process; a crash of the copy is a finding.

    ``memory`` is the address space of the copy in bytes.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=send_outcome, args=(sender, case, memory))
    child.start()
    sender.close()
    try:
        if not receiver.poll(seconds):
            raise FindingError(f"hangs: more than {seconds:g} s")
        outcome, text = receiver.recv()
    except EOFError:
        child.join()
        code = child.exitcode or 0
        raise FindingError(f"crash: {signal.Signals(-code).name if code < 0 else code}") from None
    finally:
        receiver.close()
        child.kill()
        child.join()
    if outcome is None:
        raise FindingError(text)
    return str(outcome)


def send_outcome(sender: Connection, case: Callable[[], str], memory: int) -> None:
    faulthandler.disable()
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        sender.send((case(), ""))
    except FindingError as finding:
        sender.send((None, str(finding)))
    except Exception:
        sender.send((None, traceback.format_exc()))
