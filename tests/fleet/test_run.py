"""Jobs on workers that fail, die, differ, and disappear; small functions replace builds."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

import dask
import pytest
from distributed import Client

from firmwright.cluster import jobs
from firmwright.cluster.jobs import Workers, connect, run_jobs
from firmwright.cluster.order import ClusterError, Order, Stop
from firmwright.pipeline.remote_jobs import describe_worker
from firmwright.report.outcomes import Outcome

from . import work
from .cluster import Cluster


@dataclass
class Notes:
    """Records the events that a watcher receives."""

    refused: dict[str, Sequence[str]] = field(default_factory=dict)
    started: list[tuple[str, str]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def refuse(self, worker: str, reasons: Sequence[str]) -> None:
        self.refused[worker] = reasons

    def start(self, job: str, worker: str) -> None:
        self.started.append((job, worker))

    def lose(self, job: str) -> None:
        self.lost.append(job)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A cluster with two workers that can import the jobs of these tests."""
    with ExitStack() as stack:
        cluster = Cluster(stack, tmp_path_factory.mktemp("here"))
        cluster.add("first", restarts=True)
        cluster.add("second", restarts=True)
        with connect(cluster.address) as client:
            yield client


def run_here(
    here: Client, orders: Sequence[Order], job: Callable[[Order, int], Outcome]
) -> tuple[dict[str, Outcome], Notes]:
    notes = Notes()
    workers = Workers(here, work.describe, work.describe(), notes)
    return {
        outcome.job: outcome for outcome in run_jobs(orders, job, Outcome, workers, Stop())
    }, notes


def test_of_500_jobs_3_fail_and_no_other(here: Client, tmp_path: Path) -> None:
    orders = work.make_orders(tmp_path, 500)
    outcomes, notes = run_here(here, orders, work.fail_some)
    failures = {name: outcome.failure for name, outcome in outcomes.items() if outcome.failure}
    assert failures == {
        "7": "recipe.yaml:1:1: a mistake",
        "250": "recipe.yaml:1:1: a mistake",
        "499": "ZeroDivisionError: nobody expects this",
    }
    built = {outcome.sha256 for outcome in outcomes.values() if not outcome.failure}
    assert built == {str(number) for number in range(500)} - failures.keys()
    started, workers = zip(*notes.started, strict=True)
    assert sorted(started) == sorted(outcomes)
    assert len(set(workers)) == 2


def test_the_job_of_a_worker_that_dies_is_done_by_another(here: Client, tmp_path: Path) -> None:
    outcomes, notes = run_here(here, work.make_orders(tmp_path, 3), work.die_once)
    assert [outcomes[name].exact for name in "012"] == ["exact"] * 3
    assert sorted(notes.lost) == ["0", "1", "2"]


def test_a_job_that_kills_its_workers_is_given_up(
    here: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "MAX_WORKER_DEATHS", 2)
    outcomes, _ = run_here(here, work.make_orders(tmp_path, 3), work.die_at_zero)
    assert {name: outcome.failure for name, outcome in outcomes.items()} == {
        "0": "2 workers ended during this job; check their memory",
        "1": "",
        "2": "",
    }


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(stack, tmp_path)


def test_a_worker_with_other_packages_is_refused_by_name(cluster: Cluster, tmp_path: Path) -> None:
    other = tmp_path / "packages" / "jinja2-0.1.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: jinja2\nVersion: 0.1\n")
    cluster.add("odd", str(other.parent))
    wanted, notes = describe_worker(), Notes()
    orders = work.make_orders(tmp_path, 20)
    with connect(cluster.address) as client:
        client.wait_for_workers(1)
        workers = Workers(client, describe_worker, wanted, notes)
        with pytest.raises(
            ClusterError, match="all workers were rejected: odd; 20 jobs are not done"
        ):
            list(run_jobs(orders, work.name_worker, Outcome, workers, Stop(), patience=0.1))
        assert notes.refused == {"odd": [f"jinja2 is 0.1, here {wanted['jinja2']}"]}
        good = cluster.add("good")  # the fleet continues with it
        client.wait_for_workers(2)
        outcomes = list(run_jobs(orders, work.name_worker, Outcome, workers, Stop()))
    assert len(outcomes) == 20
    assert {outcome.exact for outcome in outcomes} == {str(good.pid)}


def test_a_scheduler_that_goes_away_ends_the_fleet(cluster: Cluster, tmp_path: Path) -> None:
    cluster.add("first")
    cluster.add("second")
    done, notes = [], Notes()
    with connect(cluster.address) as client:
        client.wait_for_workers(2)
        workers = Workers(client, work.describe, work.describe(), notes)
        orders = work.make_orders(tmp_path, 4)
        outcomes = run_jobs(orders, work.wait_behind_first, Outcome, workers, Stop())
        done.append(next(outcomes).job)
        cluster.scheduler.kill()
        with pytest.raises(ClusterError, match="the scheduler ended; finished jobs are"):
            done.extend(outcome.job for outcome in outcomes)
    assert done == ["0"]
    assert not notes.lost


def test_a_scheduler_that_stops_answering_ends_the_fleet(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.add("first")
    with connect(cluster.address) as client:
        client.wait_for_workers(1)
        workers = Workers(client, work.describe, work.describe(), Notes())
        orders = work.make_orders(tmp_path, 2)
        outcomes = run_jobs(orders, work.wait_behind_first, Outcome, workers, Stop())
        assert next(outcomes).job == "0"
        monkeypatch.setattr(jobs, "ANSWER_S", 1.0)
        cluster.scheduler.send_signal(signal.SIGSTOP)
        with pytest.raises(ClusterError, match="the scheduler did not answer within 1 s; finished"):
            list(outcomes)


def test_the_list_of_workers_is_complete_at_any_time(here: Client) -> None:
    """At an interval, dask replaces the list of a client by a list without workers."""
    here.wait_for_workers(2)
    address = here.scheduler.address
    with (
        dask.config.set({"distributed.client.scheduler-info-interval": "1ms"}),
        connect(address) as client,
    ):
        workers = Workers(client, work.describe, work.describe(), Notes())
        assert {len(workers.list_present()) for _ in range(300)} == {2}


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "CONNECTION", 1)
    with (
        pytest.raises(ClusterError, match=r"no scheduler answers at tcp://127\.0\.0\.1:9"),
        connect("tcp://127.0.0.1:9"),
    ):
        pass


@pytest.mark.parametrize("greeting", [b"SSH-2.0-OpenSSH_9.9\r\n", b"HTTP", b""], ids=repr)
def test_who_is_no_scheduler_is_refused(greeting: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """dask would read the bytes as a length, or wait without end."""
    monkeypatch.setattr(jobs, "CONNECTION", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"

        def greet() -> None:
            with server.accept()[0] as stream, suppress(ConnectionError):
                stream.sendall(greeting)
                stream.recv(1)  # until the other side has gone

        thread = Thread(target=greet)
        thread.start()
        with (
            pytest.raises(ClusterError, match=f"no scheduler answers at {address}"),
            connect(address),
        ):
            pass
        thread.join()
