"""Runs the trials of a search: builds with given variants, in copies or as programs.

Trials run on this machine or on the workers of a cluster. A trial that fails on a cluster is
repeated on this machine. Therefore only this machine decides that a variant cannot be built, and
the results of a search do not depend on the cluster.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
from doit import get_var

from firmwright.cluster.local import run_here
from firmwright.cluster.order import Order, ReadOutput, Stop, make_order
from firmwright.errors import UserError
from firmwright.pipeline.artifacts import RUN, RUN_OUTPUTS
from firmwright.pipeline.command_line import NO_USER_CODE, SCHEDULER, rebase_paths, refuses_code
from firmwright.pipeline.job import Job
from firmwright.pipeline.remote_jobs import run_on_cluster
from firmwright.progress import report
from firmwright.recipe.tuned import TunedNetwork, format_tuned
from firmwright.system import count_cores

TRIAL = "firmwright.tasks.programs:try_variants"
"""The program that builds and runs a trial."""

VARIANTS = "variants.tuned"
"""The tuned file in the folder of a trial, which the build reads."""

side_by_side = count_cores()
"""The maximum number of parallel trials on this machine: one per core, or the value of `-n`."""

Trials = Mapping[str, TunedNetwork]
"""Maps the names of trials to the variants to try."""


@dataclass(frozen=True)
class TrialResult:
    """The result of a trial, or the ``failure`` that explains a missing result.

    ``instructions`` are the instructions of one inference. ``by_region`` has the instructions of
    each region. ``cycles`` are the clock cycles according to the platform's cycle table; None if
    there is no table. ``outputs`` has the SHA-256 of each output.
    """

    trial: str
    failure: str = ""
    instructions: int = 0
    by_region: Mapping[str, int] = field(default_factory=dict)
    cycles: int | None = None
    cycles_by_region: Mapping[str, int] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ClusterObserver:
    """Adds notes about events on a cluster."""

    job: Job

    def refuse(self, worker: str, reasons: Sequence[str]) -> None:
        self.job.note(f"the worker '{worker}' gets no trial: {'; '.join(reasons)}")

    def start(self, job: str, worker: str) -> None:
        """Add no note, because the progress already shows the number of finished trials."""

    def lose(self, job: str) -> None:
        self.job.note(f"trial {job}: its worker ended; another worker runs it")


def run_trials(job: Job, trials: Trials) -> Iterator[TrialResult]:
    scheduler = get_var(SCHEDULER)
    ended = try_on_cluster(job, trials, scheduler) if scheduler else try_here(job, trials)
    report("trials", 0, len(trials))
    for done, tried in enumerate(ended, 1):
        report("trials", done, len(trials))
        yield tried


def try_here(job: Job, trials: Trials) -> Iterator[TrialResult]:
    """Run the trials on this machine.

    The trials share the results of the stages before the kernels.
    """
    orders = make_orders(job, trials, job.cache / "tune", job.outdir)
    return run_here(orders, read_trial, side_by_side, ClusterObserver(job), Stop())


def try_on_cluster(job: Job, trials: Trials, scheduler: str) -> Iterator[TrialResult]:
    """Run the trials on a scheduler's workers, which may have no access to this build folder."""
    orders = make_orders(job, trials, job.cache / "cluster", None)
    observer = ClusterObserver(job)
    failed = []
    for tried in run_on_cluster(scheduler, orders, read_trial, TrialResult, observer, Stop()):
        if tried.failure:
            job.note(f"trial {tried.trial} failed on the cluster: {tried.failure}")
            failed.append(tried.trial)
        else:
            yield tried
    yield from try_here(job, {name: trials[name] for name in failed})


def repeat_arguments(job: Job) -> list[str]:
    """Return the arguments with which the process of a trial makes this job."""
    overrides = rebase_paths(job.overrides, Path("_"))
    arguments = [f"{name}={value}" for name, value in overrides.items()]
    arguments += [f"{NO_USER_CODE}=1"] if refuses_code() else []
    return [*arguments, f"recipe={job.recipe.layers}"]


def make_orders(job: Job, trials: Trials, folder: Path, outdir: Path | None) -> list[Order]:
    """Return the orders of trials. Each trial builds in a separate folder if ``outdir`` is None."""
    arguments = repeat_arguments(job)
    outdirs = {name: folder / job.platform.name / name for name in trials}
    return [
        make_order(
            name,
            TRIAL,
            [job.recipe.path, *job.recipe.bases],
            outdirs[name],
            [*arguments, f"outdir={outdir or outdirs[name]}"],
            format_tuned({job.platform.name: network}),
        )
        for name, network in trials.items()
    ]


def read_trial(order: Order, read: ReadOutput) -> TrialResult:
    try:
        return msgspec.json.decode(read(), type=TrialResult)
    except UserError as error:
        return TrialResult(order.name, str(error))


def make_trial_job(job: Job, folder: Path) -> Job:
    """Return the job of a trial. The results are in ``folder``.

    The trial reads the results of ``job`` before the kernels, unless both jobs have one folder.
    """
    origin = None if job.outdir == folder else job
    return replace(job, origin=origin, variants=folder / VARIANTS, outdir=folder)


def read_tried(job: Job, trial: str) -> TrialResult:
    """Return the result of a trial after its job has run."""
    run, outputs = RUN.read(job), RUN_OUTPUTS.read(job)
    by_region = divide(run.instructions_by_region, run.samples)
    cycles = None if run.cycles_total is None else run.cycles_total // run.samples
    cycles_by_region = divide(run.cycles_by_region, run.samples)
    digests = {name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in outputs.items()}
    executed = run.instructions or 0
    return TrialResult(trial, "", executed, by_region, cycles, cycles_by_region, digests)


def divide(totals: Mapping[str, int], samples: int) -> dict[str, int]:
    return {name: total // samples for name, total in totals.items()}
