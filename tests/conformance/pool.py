"""Two workers that judge cases; a worker that crashes or hangs costs its case, not the run."""

from __future__ import annotations

import json
import queue
import select
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

from tests.conformance.case import Outcome, cases

WORKERS = 2
CASE_SECONDS = 120
PROGRAM = "tests.conformance.case"
ROOT = Path(__file__).parents[2]


def judge_all(names: Iterable[str], program: str = PROGRAM) -> list[Outcome]:
    """Return the outcomes of these cases, in order of name, as the module ``program`` judges."""
    waiting: queue.Queue[str] = queue.Queue()
    for name in names:
        waiting.put(name)
    outcomes: dict[str, Outcome] = {}

    def work() -> None:
        worker = start(program)
        while True:
            try:
                name = waiting.get_nowait()
            except queue.Empty:
                break
            answer = ask(worker, name)
            if answer is None:
                stop(worker)
                worker = start(program)
                operator = cases()[name].operator
                answer = Outcome(name, operator, "wrong", "a crash, or the time limit")
            outcomes[name] = answer
        stop(worker)

    threads = [threading.Thread(target=work) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [outcomes[name] for name in sorted(outcomes)]


def start(program: str) -> subprocess.Popen[str]:
    """Return a worker that is ready."""
    worker = subprocess.Popen(
        [sys.executable, "-m", program, "--worker"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert worker.stdout is not None
    worker.stdout.readline()
    return worker


def stop(worker: subprocess.Popen[str]) -> None:
    worker.kill()
    worker.communicate()


def ask(worker: subprocess.Popen[str], name: str) -> Outcome | None:
    """Return the worker's answer, or None if it crashed or was too slow."""
    assert worker.stdin is not None and worker.stdout is not None
    try:
        worker.stdin.write(f"{name}\n")
        worker.stdin.flush()
    except BrokenPipeError:
        return None
    ready, _, _ = select.select([worker.stdout], [], [], CASE_SECONDS)
    line = worker.stdout.readline() if ready else ""
    return Outcome(**json.loads(line)) if line else None
