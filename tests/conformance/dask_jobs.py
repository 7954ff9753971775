"""Jobs that tests give to the workers of a Dask cluster, which import them from here."""

import os
from pathlib import Path

from kubeskew.conformance.dealing.workers import OnCellMoment
from kubeskew.conformance.runner import Moment


def double(job: int, on_moment: OnCellMoment) -> tuple[int, int]:
    """Reports a number, and returns twice as much with the process that has done it."""
    on_moment(f"cell {job}", Moment("doubling", step=job))
    return job * 2, os.getpid()


def held(job: str, on_moment: OnCellMoment) -> int:
    """Says in a pipe that it has begun, and waits until another says that it may end."""
    folder = Path(job)
    with (folder / "begun").open("w") as begun:
        begun.write(f"{os.getpid()}\n")
    with (folder / "may-end").open() as may_end:
        may_end.read()
    return os.getpid()


def fail(job: int, on_moment: OnCellMoment) -> int:
    """Fails, or ends its process, as the job says."""
    if job == 1:
        raise ValueError("no such thing")
    if job == 2:
        os._exit(7)
    return job
