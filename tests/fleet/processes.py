"""Finds the processes of a fleet that runs."""

from __future__ import annotations

import psutil


def find_processes(fleet: int, module: str) -> list[psutil.Process]:
    """Return the processes below one that run a module of ``firmwright.fleet``."""
    found = []
    try:
        processes = psutil.Process(fleet).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    for process in processes:
        try:
            if f"firmwright.fleet.{module}" in process.cmdline():
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found
