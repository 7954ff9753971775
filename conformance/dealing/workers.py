"""Defines the workers that jobs are given to: processes of this machine, or those of a Dask cluster."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from kubeskew.conformance.runner import Moment

J = TypeVar("J")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
J_contra = TypeVar("J_contra", contravariant=True)


class LostError(Exception):
    """A job has not ended as it should: the text has the reason."""


class DiedError(LostError):
    """The process that did a job has ended by itself before it was done: another may still do it."""


OnCellMoment = Callable[[str, Moment], None]  # called with a moment of a cell, by its name


class Work(Protocol[J_contra, R_co]):
    """Does a job in any process that calls it, and reports progress on the way."""

    def __call__(self, job: J_contra, on_moment: OnCellMoment) -> R_co: ...


@dataclass(frozen=True, slots=True)
class Silent(Generic[J, R]):
    """Adapts work that reports nothing on the way."""

    work: Callable[[J], R]

    def __call__(self, job: J, on_moment: OnCellMoment) -> R:
        return self.work(job)


class Workers(Protocol[J, R_co]):
    """Workers do jobs side by side; the caller asks, again and again, which have ended."""

    @property
    def count(self) -> int:
        """Jobs that can be done at a time."""
        ...

    @property
    def free(self) -> bool:
        """Another job could begin at once."""
        ...

    @property
    def busy(self) -> bool: ...

    def give(self, job: J) -> None:
        """There must be a free worker."""
        ...

    def ended(self, seconds: float) -> Iterator[tuple[J, R_co | LostError]]:
        """Waits at most `seconds` for the first job that has ended; each comes with its result."""
        ...


@dataclass(frozen=True, slots=True)
class Terms:
    """Limits of a job: `patience` is in seconds, and after `jobs` of them a process is replaced, since not
    all memory that they use is given back. `label` names a job to people."""

    patience: float
    jobs: int
    label: Callable[[Any], str]


class Pool(Protocol):
    """A pool has workers for one kind of work after another."""

    def workers(
        self, work: Work[J, R], terms: Terms, on_moment: OnCellMoment, say: Callable[[str], None]
    ) -> AbstractContextManager[Workers[J, R]]:
        """`on_moment` is called in any of the workers' processes; `say` in this one, with what happens to
        workers."""
        ...


def ignore_moment(_cell: str, _moment: Moment) -> Any:
    """Drops all moments."""
