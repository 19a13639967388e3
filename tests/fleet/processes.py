"""Finds the processes of a running fleet or search."""

from __future__ import annotations

import psutil


def find_processes(parent: int, module: str) -> list[psutil.Process]:
    """Return the processes below one that run a module, without those that follow their lifelines.

    Such a process is a copy of its parent.
    """
    found = []
    try:
        processes = psutil.Process(parent).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    for process in processes:
        try:
            if module in process.cmdline() and process.cmdline() != process.parent().cmdline():
                found.append(process)
        except (psutil.NoSuchProcess, AttributeError):  # it or its parent has ended
            continue
    return found
