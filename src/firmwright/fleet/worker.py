"""What a worker of a fleet does: it says what decides there about bundles, and builds."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from firmwright.errors import UserError
from firmwright.pipeline.task import PACKAGE, TASKS, code_digest, find_deciding_packages

from .lifeline import hold_lifeline
from .matrix import FleetJob
from .outcome import Outcome, read_outcome

BUILD_PROCESS = "firmwright.fleet.build_process"

LOG = "build.log"
"""In the build folder of a job: what the build showed."""

CODE = "the code of firmwright"


@dataclass(frozen=True)
class Order:
    """A job for a worker, which sees the same files: ``root`` is the repository.

    ``outdir`` is the job's build folder, ``environment`` has variables that take the place of the
    worker's own. ``recipe_digest`` is the SHA-256 of the recipe's file.
    """

    job: FleetJob
    root: str
    outdir: str
    environment: dict[str, str]
    recipe_digest: str


def describe_worker() -> dict[str, str]:
    """Return all that decides about bundles here: versions, and the digest of our own code."""
    return {**find_deciding_packages(), CODE: code_digest((PACKAGE, TASKS))[:12]}


def list_other_versions(wanted: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """Return a sentence for everything that a worker has otherwise than the fleet."""
    return [
        f"{name} is {found.get(name, 'missing')}, here {wanted.get(name, 'missing')}"
        for name in sorted({*wanted, *found})
        if wanted.get(name) != found.get(name)
    ]


def digest_recipe(path: Path) -> str:
    """Return the SHA-256 of a recipe's file, empty where there is none."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def build(order: Order) -> Outcome:
    """Build a job in a process of its own, and return what came out; no mistake is raised."""
    recipe = Path(order.root, order.job.recipe)
    if digest_recipe(recipe) != order.recipe_digest:
        failure = f"{recipe}: the worker sees another file; it needs the repository as it is here"
        return Outcome(order.job.name, failure)
    try:
        path = run_build(order)
        return read_outcome(order.job.name, path)
    except UserError as error:
        return Outcome(order.job.name, str(error))
    except OSError as error:
        return Outcome(order.job.name, f"{error.filename}: {error.strerror or error}")


def run_build(order: Order) -> Path:
    """Return the path of the bundle; UserError with what the build said if it fails."""
    outdir = Path(order.outdir)
    outdir.mkdir(parents=True, exist_ok=True)
    words = [*order.job.list_words(), f"outdir={os.path.relpath(outdir, order.root)}"]
    with hold_lifeline() as watched:
        done = subprocess.run(
            [sys.executable, "-m", BUILD_PROCESS, str(watched), str(outdir / LOG), *words],
            cwd=order.root, env=os.environ | order.environment, pass_fds=(watched,),
            stdin=subprocess.DEVNULL, capture_output=True, start_new_session=True,
            text=True, encoding="utf-8", errors="replace", check=False,
        )  # fmt: skip
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        raise UserError(f"the build was ended by {name}: memory may have run out")
    if done.returncode:
        raise UserError(done.stderr.strip() or f"the build ended with code {done.returncode}")
    return Path(done.stdout.splitlines()[-1])
