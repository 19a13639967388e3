"""Runs jobs on the workers of a dask cluster. Each worker runs one job at a time.

This process assigns each job to a worker. dask connects the workers and reports their presence.
Workers may join and leave during a run. A worker gets no job if its versions or its code differ
from this machine.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from struct import Struct
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from firmwright.child import hold_lifeline
from firmwright.errors import UserError, first_line

from .order import POLL, ClusterError, Order, Stop, Watcher

if TYPE_CHECKING:
    from distributed import Client, Future

T = TypeVar("T")

IDLE_TIMEOUT_S = 300.0
"""The time in seconds without any worker after which the run ends."""
MAX_WORKER_DEATHS = 10
"""The maximum number of workers that may die during a job.

After that, the job counts as the cause.
"""
CONNECTION = 10
"""The time in seconds in which a scheduler must accept a connection."""
ANSWER_S = 300.0
"""The time in seconds for an answer of the scheduler, or for the result of a job."""
DEFAULT_PORT = 8786
GREETING, LONGEST_GREETING = Struct("<Q"), 1 << 20

GONE = "the scheduler ended; finished jobs are kept"
SILENT = "the scheduler did not answer within {seconds:.0f} s; finished jobs are kept"


def require_extra() -> None:
    """Raise UserError if the packages of the extra ``fleet`` are not installed."""
    try:
        import distributed
    except ImportError as error:
        raise UserError(
            f"workers need the package '{error.name}': python -m pip install 'firmwright[fleet]'"
        ) from None
    del distributed


@contextmanager
def connect(scheduler: str) -> Iterator[Client]:
    """Yield a client of the scheduler at an address.

    Raises ClusterError if the scheduler does not answer.
    """
    require_extra()
    from distributed import Client

    silence_dask()
    try:
        refuse_stranger(scheduler)
        client = Client(scheduler, timeout=CONNECTION)
    except (OSError, ValueError) as error:
        problem = f"no scheduler answers at {scheduler}: {first_line(error)}"
        raise ClusterError(f"{problem}; run `dask scheduler`, or correct the address") from None
    with client:
        yield client


def refuse_stranger(scheduler: str) -> None:
    """Raise OSError if the server is not a scheduler. dask itself would wait or accept the server.

    The first bytes of a scheduler are the length of its greeting in bytes, as a 64-bit number.
    """
    from distributed.comm.addressing import normalize_address, parse_address, parse_host_port

    scheme, location = parse_address(normalize_address(scheduler))
    if scheme != "tcp":
        return
    with socket.create_connection(parse_host_port(location, DEFAULT_PORT), CONNECTION) as stream:
        begin = stream.recv(GREETING.size, socket.MSG_WAITALL)
    if len(begin) < GREETING.size or GREETING.unpack(begin)[0] > LONGEST_GREETING:
        raise OSError("the program at this address is not a scheduler of dask")


@contextmanager
def tell_gone() -> Iterator[None]:
    """Convert dask's exceptions for a lost scheduler to ClusterError."""
    from distributed.client import ClosedClientError

    try:
        yield
    except (OSError, asyncio.TimeoutError, ClosedClientError):
        raise ClusterError(GONE) from None


def silence_dask() -> None:
    """Hide dask's messages, because this module reports the events."""
    for name in [*logging.root.manager.loggerDict]:
        if name.partition(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL)


def list_other_versions(wanted: Mapping[str, str], versions: Mapping[str, str]) -> list[str]:
    """Return a sentence for each difference between a worker and this machine."""
    return [
        f"{name} is {versions.get(name, 'missing')}, here {wanted.get(name, 'missing')}"
        for name in sorted({*wanted, *versions})
        if wanted.get(name) != versions.get(name)
    ]


class Workers:
    """The workers of a cluster, identified by addresses. ``accepted`` workers may get jobs."""

    def __init__(
        self,
        client: Client,
        describe: Callable[[], dict[str, str]],
        wanted: Mapping[str, str],
        watcher: Watcher,
    ) -> None:
        self.client = client
        self.describe = describe
        self.wanted = wanted
        self.watcher = watcher
        self.accepted: dict[str, str] = {}
        self.asked: dict[str, Future[Any]] = {}
        self.refused: dict[str, str] = {}
        self.looked = -POLL

    def look(self) -> None:
        """Update the list of workers, at most once per interval.

        Raises ClusterError if the scheduler is gone.
        """
        if self.client.status != "running":
            raise ClusterError(GONE)
        if time.monotonic() - self.looked < POLL and not any(f.done() for f in self.asked.values()):
            return
        self.looked = time.monotonic()
        present = self.list_present()
        for known in (self.accepted, self.asked, self.refused):
            for address in known.keys() - present.keys():
                del known[address]
        for address in present.keys() - self.accepted.keys() - self.refused.keys():
            if address not in self.asked:
                self.asked[address] = self.client.submit(
                    self.describe, workers=[address], pure=False
                )
            elif self.asked[address].done():
                self.judge(address, present[address])

    def list_present(self) -> dict[str, str]:
        # `Client.scheduler_info` may return a list without workers, because dask updates the list
        # only every 2 s.
        ask = self.client.scheduler.identity
        try:
            workers = self.client.sync(ask, n_workers=-1, callback_timeout=ANSWER_S)["workers"]
        except asyncio.TimeoutError:
            raise ClusterError(SILENT.format(seconds=ANSWER_S)) from None
        return {address: str(worker["name"]) for address, worker in workers.items()}

    def judge(self, address: str, name: str) -> None:
        """Accept a worker, or reject it and report the reasons."""
        answer = self.asked.pop(address)
        versions = read_result(answer)
        if versions is not None:
            reasons = list_other_versions(self.wanted, versions)
        else:
            reasons = [first_line(answer.exception() or RuntimeError("the worker does not answer"))]
        if not reasons:
            self.accepted[address] = name
            return
        self.refused[address] = name
        self.watcher.refuse(name, reasons)

    def tell_absence(self) -> str:
        if self.refused:
            return f"all workers were rejected: {', '.join(sorted(self.refused.values()))}"
        return "there is no worker"


class Dispatch(Generic[T]):
    """The waiting jobs, and the running jobs. The keys are the addresses of the workers."""

    def __init__(
        self,
        orders: Sequence[Order],
        work: Callable[[Order, int], T],
        fail: Callable[[str, str], T],
        workers: Workers,
    ) -> None:
        self.work = work
        self.fail = fail
        self.workers = workers
        self.waiting = deque(orders)
        self.running: dict[str, tuple[Order, Future[Any]]] = {}
        self.deaths: Counter[str] = Counter()

    def collect(self) -> Iterator[T]:
        """Yield the results of finished jobs. A job waits for another worker if its worker died."""
        for address, (order, future) in [*self.running.items()]:
            if address in self.workers.accepted and not future.done():
                continue
            del self.running[address]
            answer = self.read_answer(order, future)
            future.release()
            if answer is None:
                self.workers.watcher.lose(order.name)
                self.waiting.appendleft(order)
            else:
                yield answer

    def read_answer(self, order: Order, future: Future[Any]) -> T | None:
        """Return the answer of a job, or None if its worker died or is silent."""
        from distributed import KilledWorker

        answer: T | None = read_result(future)
        if answer is not None:
            return answer
        name = order.name
        error = future.exception() if future.status == "error" else None
        if error is not None and not isinstance(error, KilledWorker):
            return self.fail(name, f"{type(error).__name__}: {first_line(error)}")
        self.deaths[name] += 1
        if self.deaths[name] < MAX_WORKER_DEATHS:
            return None
        return self.fail(
            name, f"{MAX_WORKER_DEATHS} workers ended during this job; check their memory"
        )

    def hand_out(self) -> None:
        idle = [address for address in self.workers.accepted if address not in self.running]
        for address in idle[: len(self.waiting)]:
            order = self.waiting.popleft()
            future = self.workers.client.submit(
                run_alone, self.work, order, workers=[address], pure=False
            )
            self.running[address] = order, future
            self.workers.watcher.start(order.name, self.workers.accepted[address])

    def pause(self) -> None:
        """Wait until a job or a request ends, or until the next check of the workers."""
        from distributed import wait

        asked = [*(future for _, future in self.running.values()), *self.workers.asked.values()]
        if not asked:
            time.sleep(POLL)
            return
        with suppress(asyncio.TimeoutError, CancelledError):
            wait(asked, timeout=POLL, return_when="FIRST_COMPLETED")


def read_result(future: Future[Any]) -> Any:
    """Return the result of a job, or None if no result arrives in time."""
    if future.status == "finished":
        with suppress(asyncio.TimeoutError):
            return future.result(ANSWER_S)
    return None


def run_alone(work: Callable[[Order, int], T], order: Order) -> T:
    """Run a job on a worker. Programs that the job starts end when the worker ends."""
    with hold_lifeline() as watched:
        return work(order, watched)


def run_jobs(
    orders: Sequence[Order],
    work: Callable[[Order, int], T],
    fail: Callable[[str, str], T],
    workers: Workers,
    stop: Stop,
    patience: float = IDLE_TIMEOUT_S,
) -> Iterator[T]:
    """Yield the result of each job, in the order in which the jobs end.

    ``work`` runs on a worker. The arguments are the job and an end of a lifeline. ``fail`` makes
    the result of a failed job from the job's name and a message. The job of a worker that dies is
    assigned to another worker. Raises ClusterError if ``stop`` has a reason, if the scheduler is
    gone or does not answer, or if there is no worker for ``patience`` seconds.
    """
    dispatch = Dispatch(orders, work, fail, workers)
    last_seen = time.monotonic()
    while dispatch.waiting or dispatch.running:
        if stop.reason:
            raise ClusterError(stop.reason)
        with tell_gone():
            workers.look()
            yield from dispatch.collect()
            dispatch.hand_out()
        if dispatch.running or workers.asked:
            last_seen = time.monotonic()
        elif dispatch.waiting and time.monotonic() - last_seen > patience:
            raise ClusterError(
                f"{workers.tell_absence()}; {len(dispatch.waiting)} jobs are not done"
            )
        if dispatch.running or dispatch.waiting:
            dispatch.pause()
