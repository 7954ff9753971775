"""Workers: jobs are done side by side, and a job that goes wrong takes none of the others with it."""

import os
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path

from kubeskew.conformance.dealing.forked import ForkedWorkers, HerePool
from kubeskew.conformance.dealing.workers import LostError, Terms, ignore_moment

TERMS = Terms(patience=60, jobs=3, label=str)


def all_ended(
    work: Callable[[int], int], jobs: list[int], *, count: int = 2, patience: float = 60
) -> dict[int, int | LostError]:
    """Returns what came of each job."""
    found: dict[int, int | LostError] = {}
    left = [*jobs]
    with ForkedWorkers(count, work, patience=patience, jobs=3) as workers:
        while left or workers.busy:
            while left and workers.free:
                workers.give(left.pop(0))
            found.update(workers.ended(1))
    return found


def test_every_job_is_done():
    """More jobs than workers, and more than a worker may do, are all done."""
    assert all_ended(lambda job: job * job, list(range(10))) == {job: job * job for job in range(10)}


def test_jobs_do_not_share_a_process_for_ever():
    """A worker is replaced after so many jobs."""
    found = all_ended(lambda _: os.getpid(), list(range(7)), count=1)
    assert len(set(map(str, found.values()))) == 3


def test_what_goes_wrong_is_reported():
    """An exception, an end of the process and a job that never ends are reported; other jobs are done."""

    def work(job: int) -> int:
        if job == 1:
            raise ValueError("no such thing")
        if job == 2:
            os._exit(7)
        while job == 3:
            time.sleep(0.01)  # for ever
        return job

    found = all_ended(work, [1, 2, 3, 4, 5], patience=3)

    assert "ValueError: no such thing" in str(found[1])
    assert str(found[2]) == "its process ended by itself with status 7"
    assert str(found[3]) == "it did not end within 3 s"
    assert (found[4], found[5]) == (4, 5)


def test_workers_end_with_whoever_gave_them_jobs():
    """A worker whose parent is killed, while it waits for a job, ends: a pipe that it holds is closed."""
    here, theirs = os.pipe()
    if not (parent := os.fork()):
        os.close(here)
        with ForkedWorkers(1, lambda job: job, patience=60, jobs=3) as workers:
            workers.give(1)
            list(workers.ended(60))
            os.kill(os.getpid(), signal.SIGKILL)
    os.close(theirs)
    os.waitpid(parent, 0)

    assert select.select([here], [], [], 60)[0], "the worker still holds the pipe"
    assert os.read(here, 1) == b""
    os.close(here)


def test_a_job_that_is_ended_tidies_up(tmp_path: Path):
    """A job whose worker is ended in the middle leaves by way of what it has to tidy up."""
    begun, tidied = tmp_path / "begun", tmp_path / "tidied"
    os.mkfifo(begun)

    def work(_job: int) -> int:
        try:
            begun.write_text("now")
            while True:
                time.sleep(0.01)  # until it is ended
        finally:
            tidied.touch()

    with ForkedWorkers(1, work, patience=60, jobs=3) as workers:
        workers.give(1)
        assert begun.read_text() == "now"
    assert tidied.exists()


def test_jobs_are_done_in_this_process(tmp_path: Path):
    """Each job is done when it is asked what has ended, in this process."""
    pool = HerePool()
    with pool.workers(lambda job, _on_moment: (job, os.getpid()), TERMS, ignore_moment, print) as workers:
        workers.give(3)
        assert (workers.free, workers.busy) == (False, True)
        assert [*workers.ended(1)] == [(3, (3, os.getpid()))]
        assert (workers.free, workers.busy) == (True, False)
