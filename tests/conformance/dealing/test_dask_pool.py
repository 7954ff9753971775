"""Jobs given to the workers of a Dask cluster, which come, go, are killed, or are of another kubeskew."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask_jobs
import pytest
from dask_processes import DaskProcesses, is_running, running_dask
from until import until

from kubeskew.cluster.failures import EndedEarlyError, UserError
from kubeskew.conformance.dealing import dask_pool, dask_worker
from kubeskew.conformance.dealing.dask_pool import DaskPool
from kubeskew.conformance.dealing.workers import DiedError, LostError, Terms, ignore_moment
from kubeskew.conformance.runner import Moment

pytestmark = [pytest.mark.people, pytest.mark.xdist_group("dask")]  # processes take seconds to start

TERMS = Terms(patience=60, jobs=1000, label=lambda job: f"job {job}")


@pytest.fixture(scope="module")
def dask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskProcesses]:
    with running_dask(tmp_path_factory.mktemp("dask")) as processes:
        yield processes


@pytest.fixture
def workers(dask: DaskProcesses) -> Iterator[list[int]]:
    """The process ids of two workers of this test."""
    started = [dask.start_worker(), dask.start_worker()]
    yield started
    for pid in started:
        if next(each for each in dask.workers if each.pid == pid).poll() is None:
            dask.kill(pid)


def all_ended(workers: Any, jobs: list[Any]) -> dict[Any, Any]:
    left, found = [*jobs], {}
    while left or workers.busy:
        while left and workers.free:
            workers.give(left.pop(0))
        found.update(workers.ended(1))
    return found


def wait_for_both(pool: DaskPool) -> None:
    assert pool._client is not None
    pool._client.wait_for_workers(2, timeout=60)


def ignore(_text: str) -> None:
    pass


async def test_jobs_are_done_by_all_workers(dask: DaskProcesses, workers: list[int]):
    """Every job is done, by both workers, in processes next to them that end with the run; what jobs
    report on the way is received."""
    moments: list[tuple[str, Moment]] = []
    with DaskPool(dask.address, {}) as pool:
        wait_for_both(pool)
        with pool.workers(dask_jobs.double, TERMS, lambda *moment: moments.append(moment), ignore) as given:
            assert (given.count, given.free) == (2, True)
            found = all_ended(given, list(range(6)))
            pids = {pid for _, pid in found.values()}
            await until(lambda: len(moments) == 6)

    assert {job: double for job, (double, _) in found.items()} == {job: 2 * job for job in range(6)}
    assert len(pids) == 2
    assert not any(map(is_running, pids))
    assert [pid for worker in workers for pid in dask.children(worker)] == []
    assert sorted(moments) == [(f"cell {job}", Moment("doubling", step=job)) for job in range(6)]


def test_what_goes_wrong_is_reported(dask: DaskProcesses, workers: list[int]):
    """An exception and a process that ends by itself are what came of a job, and others are done."""
    with DaskPool(dask.address, {}) as pool:
        wait_for_both(pool)
        with pool.workers(dask_jobs.fail, TERMS, ignore_moment, ignore) as given:
            found = all_ended(given, [1, 2, 3, 4])

    assert isinstance(found[1], LostError)
    assert "ValueError: no such thing" in str(found[1])
    assert isinstance(found[2], DiedError)
    assert str(found[2]) == "its process ended by itself with status 7"
    assert (found[3], found[4]) == (3, 4)


def pipes(folder: Path) -> Path:
    folder.mkdir()
    for name in ("begun", "may-end"):
        os.mkfifo(folder / name)
    return folder


def begun(folder: Path) -> int:
    """Waits until the job has begun; returns its process."""
    with (folder / "begun").open() as pipe:
        return int(pipe.read())


async def test_a_job_of_a_worker_that_is_killed_is_done_by_another(
    dask: DaskProcesses, workers: list[int], tmp_path: Path
):
    """A worker killed in mid-job takes its processes along; its job is given to the other, which is said."""
    said: list[str] = []
    folder = pipes(tmp_path / "job")
    with DaskPool(dask.address, {}) as pool:
        wait_for_both(pool)
        with pool.workers(dask_jobs.held, TERMS, ignore_moment, said.append) as given:
            given.give(str(folder))
            first = begun(folder)
            [killed] = [worker for worker in workers if first in dask.children(worker)]
            dask.kill(killed)
            await until(lambda: not is_running(first))

            await until(lambda: [*given.ended(0.05)] or said)
            second = begun(folder)
            [other] = [worker for worker in workers if second in dask.children(worker)]
            (folder / "may-end").write_text("now")
            [(job, answer)] = await until(lambda: [*given.ended(0.05)])

    assert (job, answer, other) == (str(folder), second, workers[1 - workers.index(killed)])
    [gone] = said
    assert gone.endswith(f"has gone; to be run again: job {folder}")


async def test_without_any_worker_the_run_ends_early(
    dask: DaskProcesses, workers: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """All workers have gone and none comes: that is an end of the run, which says so."""
    monkeypatch.setattr(dask_pool, "PATIENCE_SECONDS", 0.5)
    said: list[str] = []
    folder = pipes(tmp_path / "job")
    with DaskPool(dask.address, {}) as pool:
        wait_for_both(pool)
        with pool.workers(dask_jobs.held, TERMS, ignore_moment, said.append) as given:
            given.give(str(folder))
            begun(folder)
            for worker in workers:
                dask.kill(worker)
            with pytest.raises(EndedEarlyError, match=f"no worker is left at {dask.address}"):
                all_ended(given, [])
    assert said[-1] == "no worker is left: waiting 0.5 s for another"


async def test_a_worker_that_comes_later_is_given_jobs(
    dask: DaskProcesses, workers: list[int], tmp_path: Path
):
    """The last worker goes in mid-job and another one comes: that one does it."""
    said: list[str] = []
    folder = pipes(tmp_path / "job")
    dask.kill(workers[1])
    with (
        DaskPool(dask.address, {}) as pool,
        pool.workers(dask_jobs.held, TERMS, ignore_moment, said.append) as given,
    ):
        given.give(str(folder))
        begun(folder)
        dask.kill(workers[0])
        new = dask.start_worker()
        await until(lambda: [*given.ended(0.05)] or any(text.endswith("has come") for text in said))
        assert begun(folder) in dask.children(new)
        (folder / "may-end").write_text("now")
        await until(lambda: [*given.ended(0.05)])
    dask.kill(new)


def refusal(dask: DaskProcesses, files: dict[str, str]) -> str:
    with DaskPool(dask.address, files) as pool:
        wait_for_both(pool)
        with (
            pytest.raises(UserError) as refused,
            pool.workers(dask_jobs.double, TERMS, ignore_moment, ignore),
        ):
            pass
    return str(refused.value)


def test_a_worker_with_another_kubeskew_is_refused(
    dask: DaskProcesses, workers: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """Workers must have the client's build, and the files that scenarios name."""
    mine = dask_worker.build()
    monkeypatch.setattr(dask_worker, "build", lambda: "kubeskew 9.9 build abc on Python 3.11")
    refused = refusal(dask, {})
    assert refused.startswith(f"--dask {dask.address}: the worker tcp://127.0.0.1:")
    assert refused.endswith(
        f"it has {mine}, this is kubeskew 9.9 build abc on Python 3.11: install the same one there"
    )
    monkeypatch.undo()

    assert f"{tmp_path}/pod.yaml is not there: a scenario needs the files" in refusal(
        dask, {str(tmp_path / "pod.yaml"): "0"}
    )
    (tmp_path / "pod.yaml").write_text("other")
    assert f"{tmp_path}/pod.yaml is another file there" in refusal(dask, {str(tmp_path / "pod.yaml"): "0"})


def test_without_scheduler_or_worker_the_remedy_is_named(
    dask: DaskProcesses, monkeypatch: pytest.MonkeyPatch
):
    """An address where nobody answers, one that is none, and a scheduler without workers."""
    monkeypatch.setattr(dask_pool, "CONNECT_SECONDS", 1.0)
    monkeypatch.setattr(dask_pool, "PATIENCE_SECONDS", 0.3)
    for address in ("tcp://127.0.0.1:1", "nonsense://x"):
        with pytest.raises(
            UserError, match=r"no scheduler answers there .*: start one with `dask scheduler`"
        ):
            DaskPool(address, {}).__enter__()
    with (
        DaskPool(dask.address, {}) as pool,
        pytest.raises(UserError, match=f"no worker is there: start one with `dask worker {dask.address}`"),
    ):
        pool.workers(dask_jobs.double, TERMS, ignore_moment, ignore).__enter__()
