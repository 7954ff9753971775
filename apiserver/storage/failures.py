"""Defines the errors of the event store: refusals and failures. HTTP words them elsewhere."""

from kubeskew.apiserver.storage.records import Entry, Key


class StorageError(Exception):
    """The database did not do it: disk full, locked too long, corrupt, closed. Nothing was acknowledged."""

    refused = False  # whether the database would have refused any other change, too


ADVICE = (
    "`kubeskew replay` lists what is wrong; with the cluster down, `kubeskew repair --from-log` rebuilds "
    "the table of objects from the log"
)


class DamageError(StorageError):
    """The store is not what was written to it. What to do about that is part of the message."""

    def __init__(self, damage: str, advice: str = ADVICE) -> None:
        super().__init__(f"{damage}. {advice}")


class RevisionMismatchError(Exception):
    """The object is not at the expected revision; `current` is what it is (None: it does not exist).

    It never reaches a client: an update is tried again on the newer object (guaranteed_update.py), a create
    answers AlreadyExists. The 409 of a client's own resourceVersion is `errors.conflict`.
    """

    def __init__(self, key: Key, current: Entry | None) -> None:
        super().__init__(f"{key} is at {current.revision if current else 0}")
        self.key = key
        self.current = current


class CompactedError(Exception):
    """The revision asked for is older than the horizon."""

    def __init__(self, asked: int, horizon: int) -> None:
        super().__init__(f"revision {asked} is older than {horizon}")
        self.asked = asked
        self.horizon = horizon


class FutureRevisionError(Exception):
    """The revision asked for has not been written yet."""

    def __init__(self, asked: int, current: int) -> None:
        super().__init__(f"revision {asked} is newer than {current}")
        self.asked = asked
        self.current = current


class SlowWatcherError(Exception):
    """The watcher fell behind its bound and was ended."""
