"""Defines what the log needs of a database, whichever it is: transactions, and statements in them by name."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from kubeskew.apimachinery.clock import Clock

T = TypeVar("T")
Row = tuple[Any, ...]


class Session(Protocol):
    """Holds one transaction. Its methods return when the database has answered, without `await`: who calls
    them runs where that is possible.
    """

    def all(self, name: str, /, **values: object) -> list[Any]:
        """Returns the rows that the named statement finds."""
        ...

    def many(self, name: str, rows: Sequence[Row]) -> None:
        """Runs the named statement for each of `rows`, whose values are in the order of its placeholders."""
        ...

    def insert(self, name: str, rows: Sequence[Row]) -> None:
        """Inserts `rows`, whose values are in the order of the named statement's placeholders."""
        ...

    def run(self, name: str, /, **values: object) -> int:
        """Runs the named statement; returns how many rows it changed."""
        ...


class Database(Protocol):
    """Keeps one log. Whatever it refuses is a StorageError."""

    @property
    def place(self) -> str:
        """Returns where it is, for people: without passwords."""
        ...

    @property
    def shared(self) -> bool:
        """Decides whether another process can write to it."""
        ...

    @property
    def there(self) -> bool:
        """Decides whether it is still what was opened."""
        ...

    async def write(self, work: Callable[[Session], T]) -> T:
        """Runs `work` in a transaction that no other writer's overlaps, and commits it."""
        ...

    async def read(self, work: Callable[[Session], T]) -> T:
        """Runs `work` on one snapshot."""
        ...

    async def newest(self) -> int | None:
        """Returns the newest revision in `events` that was committed before the call, by anybody; None if
        there is none, or where that cannot be told quickly.
        """
        ...

    def committed(self) -> int:
        """Returns the revision that must have been committed by now, 0 if that is not known."""
        ...

    def note(self, revision: int) -> None:
        """Notes that `revision` is committed."""
        ...

    async def wait_for_others(self, clock: Clock) -> None:
        """Returns when another process may have written."""
        ...

    async def close(self) -> None:
        """Lets go of every connection; idempotent."""
        ...
