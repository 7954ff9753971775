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
    """A job has not ended as it should: the text says how."""


class DiedError(LostError):
    """Whoever did a job has ended by itself before it was done: another may still do it."""


Hear = Callable[[str, Moment], None]  # hears what a cell, by its name, does


class Work(Protocol[J_contra, R_co]):
    """Does a job, in whatever process it is called, and tells on the way what is done."""

    def __call__(self, job: J_contra, hear: Hear) -> R_co: ...


@dataclass(frozen=True, slots=True)
class Silent(Generic[J, R]):
    """Work of which nothing is told on the way."""

    work: Callable[[J], R]

    def __call__(self, job: J, hear: Hear) -> R:
        return self.work(job)


class Workers(Protocol[J, R_co]):
    """Does jobs side by side. Whoever gives them asks, again and again, which have ended."""

    @property
    def count(self) -> int:
        """Returns how many jobs are done at a time."""
        ...

    @property
    def free(self) -> bool:
        """Returns whether another job could begin at once."""
        ...

    @property
    def busy(self) -> bool:
        """Returns whether a job that was given has not ended."""
        ...

    def give(self, job: J) -> None:
        """Begins a job; there must be a free worker."""
        ...

    def ended(self, seconds: float) -> Iterator[tuple[J, R_co | LostError]]:
        """Yields the jobs that have ended, with what came of them; waits so long for the first."""
        ...


@dataclass(frozen=True, slots=True)
class Terms:
    """Says how long a job may take, in seconds, and after how many jobs a process is replaced: what they
    leave behind in it is not all given back. `label` names a job to people."""

    patience: float
    jobs: int
    label: Callable[[Any], str]


class Pool(Protocol):
    """Gives workers for one kind of work after another."""

    def workers(
        self, work: Work[J, R], terms: Terms, hear: Hear, say: Callable[[str], None]
    ) -> AbstractContextManager[Workers[J, R]]:
        """Gives workers that do this work. `hear` is called in any of their processes, `say` in this one:
        with what happens to workers."""
        ...


def unheard(_cell: str, _moment: Moment) -> Any:
    """Hears nothing."""
