"""tune: write the layers in all of their ways, count instructions, keep the fastest way of each.

A trial writes every layer in the next of its ways. Instructions are counted for each layer by
itself, so there are as many trials as the layer with the most ways has, not as many as there are
combinations. What comes before the kernels is shared by all.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firmwright.errors import UserError
from firmwright.progress import track
from firmwright.recipe.recipe import tuned_path
from firmwright.recipe.tuned import TunedLayer, TunedNetwork, read_tuned, write_tuned

from . import missing_programs
from .artifact import INDEX_FILE
from .artifacts import LOWERED, PARTITION, RUN, RUN_OUTPUTS
from .command_line import NO_USER_CODE, find_place, read_overrides, refuses_code
from .job import Job
from .networks import leave_out_members
from .task import Title, run_action
from .tuning import Ways, describe_network, list_ways

if TYPE_CHECKING:
    from firmwright.verify.record import RunRecord

SENTENCE = "find the fastest C of each layer by counted instructions"

TRIAL = "firmwright.tasks.trial"
"""The program that builds and runs a trial."""

LOG = "trial.log"
"""In the folder of a trial: what its build showed."""

Counts = Mapping[str, int]
"""Instructions of one inference by region."""


@dataclass(frozen=True)
class Trial:
    """One build: each layer in the way of this number, in the usual one if it has no more."""

    number: int
    folder: Path

    @property
    def file(self) -> Path:
        """The file of ways that the build reads."""
        return self.folder / "ways.tuned"

    def choose(self, ways: Sequence[str]) -> str:
        return ways[self.number] if self.number < len(ways) else ways[0]


def tune(job: Job) -> None:
    """Write the fastest way of each layer into the recipe's file of ways.

    Raises UserError where nothing counts instructions, or the network in its usual ways does not
    build. Other trials may fail: their ways are left out.
    """
    refuse_uncounted(job)
    partition, module = PARTITION.read(job), LOWERED.read(job)
    # Imported late, with TVM: a build with nothing to do searches nothing.
    from firmwright.targets.custom_strategies import load_extensions

    with load_extensions(job.mix, job.recipe.extensions, job.recipe.path) as mix:
        ways = list_ways(partition, module, mix)
    if not ways:
        job.note("no layer can be written in several ways, so there is nothing to tune")
        return
    network = describe_network(job, partition)
    trials = list(make_trials(job, ways))
    for trial in trials:
        tried = {name: TunedLayer(trial.choose(of), 0, of[0], 0) for name, of in ways.items()}
        write_ways(trial, job, replace(network, layers=tried))
    counted = run_trials(job, trials)
    found = replace(network, layers=choose_ways(ways, trials, counted))
    before, after = trials[0], try_together(job, found, trials[0])
    changed = update_file(job, found)
    job.note(
        f"{len(ways)} layers in {len(trials)} trials: {read_run(job, after).instructions:,} "
        f"instructions, {read_run(job, before).instructions:,} in the usual ways"
    )
    job.note(f"{tuned_path(job.recipe.path)}: {'written' if changed else 'is as it was'}")


def refuse_uncounted(job: Job) -> None:
    """Raise UserError where a trial would count nothing."""
    if job.members:
        recipes = ", ".join(str(member.recipe.path) for member in job.members)
        raise UserError(f"{job.recipe.path}: tune the recipes of its networks: {recipes}")
    if not job.counts_instructions:
        message = f"nothing counts instructions on '{job.platform.name}', so nothing can be tuned"
        raise UserError(str(find_place(job.recipe, ("platform",), message)))


def make_trials(job: Job, ways: Ways) -> Iterator[Trial]:
    """Yield the trials that the layers need, at most as many as the recipe allows."""
    most = max(map(len, ways.values()))
    asked = job.recipe.tune.trials if job.recipe.tune else None
    for number in range(min(most, asked or most)):
        yield Trial(number, job.cache / "tune" / job.platform.name / str(number))


def write_ways(trial: Trial, job: Job, network: TunedNetwork) -> None:
    """Write the file of ways that a trial reads."""
    trial.folder.mkdir(parents=True, exist_ok=True)
    write_tuned(trial.file, {job.platform.name: network})


def try_together(job: Job, found: TunedNetwork, usual: Trial) -> Trial:
    """Return the trial of the fastest ways of all layers.

    Raises UserError where they do not build together, though each was in a trial that did.
    """
    if all(layer.way == layer.usual for layer in found.layers.values()):
        return usual
    together = Trial(usual.number, usual.folder.with_name("together"))
    write_ways(together, job, found)
    try:
        run_trial(job, together)
    except UserError as error:
        raise UserError(
            f"the fastest ways do not build together: {error}\n`target: c -specialize=size` "
            "shares functions, which take less flash"
        ) from None
    check_outputs(job, usual, together)
    return together


def run_trials(job: Job, trials: Sequence[Trial]) -> list[Counts | None]:
    """Return what was counted in each trial, None for one that failed; they run side by side."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        running = [pool.submit(run_trial, job, trial) for trial in trials]
        try:
            return [
                collect(job, trials, trial, result)
                for trial, result in track([*zip(trials, running, strict=True)], "trials")
            ]
        finally:
            pool.shutdown(cancel_futures=True)  # those that have not begun, after a failure


def collect(
    job: Job, trials: Sequence[Trial], trial: Trial, result: Future[Counts]
) -> Counts | None:
    """Return what a trial counted, once it has ended; None, and a note, for one that failed.

    Raises UserError where the usual ways failed.
    """
    try:
        counts = result.result()
    except UserError as error:
        if trial.number == 0:
            raise
        job.note(f"trial {trial.number} is left out: {error}")
        return None
    check_outputs(job, trials[0], trial)
    return counts


def run_trial(job: Job, trial: Trial) -> Counts:
    """Build and run a trial in a process of its own; UserError with what it said if it fails."""
    words = [f"{name}={value}" for name, value in read_overrides().items()]
    words += [f"{NO_USER_CODE}=1"] if refuses_code() else []
    words += [f"recipe={job.recipe.path}", f"outdir={job.outdir}"]
    done = subprocess.run(
        [sys.executable, "-m", TRIAL, str(trial.folder), str(trial.file), *words],
        stdin=subprocess.DEVNULL, capture_output=True,
        text=True, encoding="utf-8", errors="replace", check=False,
    )  # fmt: skip
    if done.returncode:
        said = (done.stdout + done.stderr).strip()
        raise UserError(said or f"it ended with code {done.returncode}; see {trial.folder / LOG}")
    record = read_run(job, trial)
    return {name: count // record.samples for name, count in record.instructions_by_region.items()}


def read_run(job: Job, trial: Trial) -> RunRecord:
    return RUN.read(make_trial_job(job, trial.folder, trial.file))


def check_outputs(job: Job, usual: Trial, trial: Trial) -> None:
    """Raise UserError where a trial has other outputs than the usual ways: all have to agree."""
    expected, found = (
        RUN_OUTPUTS.read(make_trial_job(job, each.folder, each.file)) for each in (usual, trial)
    )
    other = [name for name, array in expected.items() if array.tobytes() != found[name].tobytes()]
    if other:
        raise UserError(
            f"{trial.file}: these ways give other outputs than the usual ones "
            f"({', '.join(other)}): a form is wrong here"
        )


def make_trial_job(job: Job, folder: Path, file: Path) -> Job:
    """Return the job of a trial, with the results of its own in ``folder``."""
    return replace(job, origin=job, ways=file, outdir=folder)


def choose_ways(
    ways: Ways, trials: Sequence[Trial], counted: Sequence[Counts | None]
) -> dict[str, TunedLayer]:
    """Return the way of each layer that takes the fewest instructions, the first of several."""
    usual = counted[0]
    assert usual is not None
    chosen = {}
    for name, of in ways.items():
        tried = [
            (counts[name], trial.number)
            for trial, counts in zip(trials, counted, strict=True)
            if counts is not None and trial.number < len(of)
        ]
        fewest, number = min(tried)
        chosen[name] = TunedLayer(of[number], fewest, of[0], usual[name])
    return chosen


def update_file(job: Job, found: TunedNetwork) -> bool:
    """Write what was found for the platform beside what the file has for others."""
    path = tuned_path(job.recipe.path)
    others: Mapping[str, TunedNetwork] = {}
    if path.exists():
        with suppress(UserError):  # a damaged file is replaced
            others = read_tuned(path).platforms
    return write_tuned(path, {**others, job.platform.name: found})


def list_shared_results(job: Job) -> list[str]:
    """Return the results that the trials read: those of stages before the kernels."""
    stages = [name for name in job.stages if job.has_stage(name)]
    before = [name for name in stages if not job.depends_on_kernels(name)]
    needed = {
        job.name_stage(need)
        for name in stages
        if name not in before
        for need in job.stages[name].needs
    }
    return [str(job.folder(name) / INDEX_FILE) for name in before if name in needed]


def make_tasks(jobs: Iterable[Job]) -> Iterator[dict[str, Any]]:
    """Yield the task of each job: tune:digits-rv32-bare.

    That of a firmware of several networks says to tune these by themselves.
    """
    yield {"basename": "tune", "name": None, "doc": SENTENCE}
    for job in leave_out_members(jobs):
        name = f"tune:{job.bundle_name}"
        yield {
            "basename": "tune",
            "name": job.bundle_name,
            "doc": SENTENCE,
            "title": Title(job, "tune"),
            "actions": [(run_action, [job, name, partial(tune, job)])],
            "file_dep": [] if job.members else list_shared_results(job),
            "task_dep": missing_programs.preceding_tasks(job),
            "uptodate": [False],
            "verbosity": 2,
        }
