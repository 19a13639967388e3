"""Runs a fleet once, from the arguments of the command line to the report."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

from doit import get_var

from firmwright.bundle.outcome import read_outcome
from firmwright.cluster.order import BUILD, ClusterError, Order, ReadOutput, Stop, make_order
from firmwright.created_folders import claim_folder
from firmwright.errors import UserError
from firmwright.pipeline.build_root import find_build_root, prepare_build_root
from firmwright.pipeline.command_line import SCHEDULER, set_variables
from firmwright.pipeline.freshness import file_digest
from firmwright.pipeline.recipe_arguments import enter_repository
from firmwright.pipeline.remote_jobs import run_on_cluster
from firmwright.pipeline.snapshot import find_finished_bundle, look_at_always
from firmwright.process import ENDINGS
from firmwright.report.outcomes import Outcome
from firmwright.shared_cache import open_cache
from firmwright.system import count_cores

from .fleet_report import PAGE, RESULTS, count, read_results, write_report
from .matrix import FleetJob
from .progress_table import ProgressTable

BUILT, FAILED, STOPPED = 0, 1, 2
"""Exit codes: all jobs were built, some jobs failed, the fleet did not finish.

The exit code is 128 plus the number of a signal if the signal stops the fleet.
"""

FOLDER = "fleet"
"""The folder in the build folder that contains the jobs' build folders and the report."""


@dataclass(frozen=True)
class Fleet:
    """The jobs of a command, and their workers. ``scheduler`` is None if only this machine builds.

    ``before`` maps the jobs of the last run to their outcomes.
    """

    jobs: list[FleetJob]
    scheduler: str | None
    workers: int
    folder: Path
    before: Mapping[str, Outcome]


def run_fleet(read_jobs: Callable[[], list[FleetJob]], as_json: bool = False) -> int:
    """Build the jobs that ``read_jobs`` returns, and return the exit code.

    Errors of ``read_jobs`` are printed like all other user errors. ``as_json`` prints the file
    ``fleet.json`` on stdout, and the progress on stderr.
    """
    try:
        fleet = read_fleet_arguments(read_jobs())
        open_cache()  # reports an error in the cache settings once, not for each job
        if not as_json:
            return build_all(fleet)
        with redirect_stdout(sys.stderr):
            code = build_all(fleet)
        print((fleet.folder / RESULTS).read_text("utf-8"), end="")
        return code
    except UserError as error:
        print(error, file=sys.stderr)
        return STOPPED


def read_fleet_arguments(jobs: list[FleetJob]) -> Fleet:
    """Return the fleet of the command line. Raises UserError if an argument is wrong."""
    # A job waits for its compilers and for the disk. One additional job uses this time.
    workers = get_var("workers", str(count_cores() + 1))
    if not (workers.isascii() and workers.isdigit() and int(workers)):
        raise UserError(f"workers={workers}: expected a whole number from 1 on")
    if get_var(SCHEDULER) is not None and get_var("workers") is not None:
        raise UserError("workers=: the scheduler already has workers; remove one of them")
    prepare_build_root()
    folder = find_build_root() / FOLDER
    claim_folder(folder)
    before = read_results(folder / RESULTS)
    return Fleet(jobs, get_var(SCHEDULER), min(int(workers), len(jobs)), folder, before)


def build_all(fleet: Fleet) -> int:
    watch = ProgressTable(sys.stdout, len(fleet.jobs))
    outcomes: dict[str, Outcome] = {}
    code = BUILT
    stop = Stop()
    catch_signals(stop)
    if fleet.scheduler:
        orders = make_orders(fleet)
        ended = run_on_cluster(fleet.scheduler, orders, read_end, Outcome, watch, stop)
    else:
        ended = run_on_machine(fleet, watch, stop)
    try:
        for outcome in ended:
            outcomes[outcome.job] = outcome
            watch.finish(outcome)
    except ClusterError as error:
        watch.screen.close()
        print(error, file=sys.stderr)
        code = stop.code or STOPPED
    names = [job.name for job in fleet.jobs]
    pairs = {job.name: job.pair for job in fleet.jobs}
    write_report(fleet.folder, names, outcomes, fleet.before, pairs)
    watch.screen.print_hanging("", f"{count(names, outcomes)}; {fleet.folder / PAGE}")
    failed = any(outcome.failure for outcome in outcomes.values())
    return code or (FAILED if failed else BUILT)


def catch_signals(stop: Stop) -> None:
    """Set signal handlers: one signal stops the jobs, a second signal ends the program at once."""

    def note(number: int, _frame: FrameType | None) -> None:
        if stop.code:
            os._exit(stop.code)  # the workers of this machine end when this process ends
        ending = ENDINGS[signal.Signals(number).name].strip()
        stop.reason, stop.code = f"{ending}; finished stages are kept", 128 + number

    for name in filter(partial(hasattr, signal), ENDINGS):
        if signal.getsignal(signal.Signals[name]) != signal.SIG_IGN:
            signal.signal(signal.Signals[name], note)


def run_on_machine(fleet: Fleet, watch: ProgressTable, stop: Stop) -> Iterator[Outcome]:
    """Build the jobs in copies of this process, which imports the modules of the stages once.

    The copies have the process's working directory and environment. A job without outdated stages
    needs no copy.
    """
    enter_repository()
    orders = []
    always = look_at_always()
    for order in make_orders(fleet):
        set_variables(order.arguments)
        bundle = find_finished_bundle(always)
        if bundle is None:
            orders.append(order)
            continue
        watch.start(order.name, "")
        before = fleet.before.get(order.name)
        if before and before.sha256 == file_digest(bundle):
            yield before
        else:
            yield read_end(order, partial(str, bundle))
    if orders:
        # Imported late, because an up-to-date fleet needs no stage and no process.
        from firmwright.cluster.local import Memory, run_here
        from firmwright.pipeline import warm
        from firmwright.pipeline.stage_cache import share_results
        from firmwright.tasks.pipeline import NETWORKS_PIPELINE, PIPELINE

        turns = take_turns(orders)
        warm.rehearse(turns[0].arguments, PIPELINE, NETWORKS_PIPELINE)
        warm.read_fixed_files()
        memory = Memory(warm.report_learned, warm.learn_report)
        with TemporaryDirectory(prefix="firmwright-results-") as results:
            share_results(Path(results))
            yield from run_here(turns, read_end, fleet.workers, watch, stop, memory)


def take_turns(orders: Sequence[Order]) -> list[Order]:
    """Return the jobs in an order in which jobs of different recipes run in parallel.

    Jobs of one recipe share results. A later job can reuse the results, but a parallel job cannot.
    """
    seen = Counter[tuple[str, ...]]()
    turns = []
    for order in orders:
        recipe = tuple(order.files)
        turns.append(seen[recipe])
        seen[recipe] += 1
    return [order for _, order in sorted(zip(turns, orders, strict=True), key=itemgetter(0))]


def make_orders(fleet: Fleet) -> list[Order]:
    return [
        make_order(
            job.name,
            BUILD,
            job.list_files(),
            fleet.folder / job.name,
            [*job.list_arguments(), f"outdir={os.path.relpath(fleet.folder / job.name)}"],
        )
        for job in fleet.jobs
    ]


def read_end(order: Order, read: ReadOutput) -> Outcome:
    """Return the outcome of a job from the output of its build, even if the build failed."""
    try:
        bundle = Path(read().splitlines()[-1])
        return read_outcome(order.name, bundle)
    except UserError as error:
        return Outcome(order.name, str(error))
    except OSError as error:
        return Outcome(order.name, f"{error.filename}: {error.strerror or error}")
