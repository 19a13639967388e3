"""Run a reference runtime where it may die: some of LiteRT's kernels end the whole process."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from firmwright.errors import UserError

Result = TypeVar("Result")


def run_in_subprocess(what: str, function: Callable[..., Result], *arguments: Any) -> Result:
    """Return what the function returns in a copy of this process; what it raises is raised here.

    Raises UserError, beginning with ``what``, where a signal ended the copy.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=send_result, args=(sender, function, arguments))
    child.start()
    sender.close()
    try:
        succeeded, value = receiver.recv()
    except EOFError:
        child.join()
        code = child.exitcode or 0
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        raise UserError(f"{what}: it ended with {how}") from None
    finally:
        receiver.close()
    child.join()
    if not succeeded:
        raise value
    result: Result = value
    return result


def send_result(
    sender: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    """Send (True, result) or (False, error); nothing that a dying runtime prints is shown."""
    faulthandler.disable()
    sink = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(sink, descriptor)
    try:
        sender.send((True, function(*arguments)))
    except Exception as error:
        sender.send((False, error if isinstance(error, UserError) else RuntimeError(str(error))))
