"""Defects to be planted, each of which crashes have to find: of the disk, of the log, of other files."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import log_histories
from disk_recorder import Recorder
from stories import Told, Value

from kubeskew.apiserver.storage import sql_log
from kubeskew.apiserver.storage.sqlite import database, maintenance
from kubeskew.cluster import branches, state
from kubeskew.kubelet import files as state_files
from kubeskew.kubelet import journal

Plant = Callable[[], AbstractContextManager[Any]]


def _pragma(value: str) -> Plant:
    pragmas = tuple(pragma.replace("synchronous=FULL", value) for pragma in database.PRAGMAS)
    return lambda: patch.object(database, "PRAGMAS", pragmas)


def _ignored(suffix: str) -> Plant:
    return lambda: patch.object(Recorder, "ignores_syncs", staticmethod(lambda path: path.endswith(suffix)))


def _nothing(*_: object, **__: object) -> None:
    return None


def _unflushed(*places: tuple[Any, str]) -> Plant:
    @contextmanager
    def planted() -> Iterator[None]:
        with ExitStack() as stack:
            for module, name in places:
                stack.enter_context(patch.object(module, name, _nothing))
            yield

    return planted


def _early(since: int, _at: int, value: Value) -> Told[Value]:
    return Told(since, since, value)


def _in_two_commits(session: Any, decided: Any, rows: Any) -> None:
    """Writes further events of a revision in a transaction of their own."""
    _insert(session, decided, rows)
    raw = session._connection  # noqa: SLF001 - a defect does what sessions offer nobody
    raw.execute("COMMIT")
    raw.execute("BEGIN IMMEDIATE")


_insert = sql_log._insert  # noqa: SLF001 - the planted one ends with what it replaces

# By name: the kind of histories in which it shows, and how it is planted.
DEFECTS: Mapping[str, tuple[str, Plant]] = {
    "synchronous=OFF": ("commits", _pragma("synchronous=OFF")),
    "synchronous=NORMAL": ("commits", _pragma("synchronous=NORMAL")),
    "syncs of the write-ahead log are ignored": ("commits", _ignored("-wal")),
    "syncs of the database are ignored": ("commits", _ignored("events.db")),
    "acknowledged before the commit": ("commits", lambda: patch.object(log_histories, "Told", _early)),
    "events and objects in two commits": (
        "commits",
        lambda: patch.object(sql_log, "_insert", _in_two_commits),
    ),
    "syncs of the log are ignored in a migration": ("migration", _ignored("-wal")),
    "a fork's files are not synced": ("fork", _unflushed((branches, "flush_tree"))),
    "a fork's log is not synced": ("fork", _unflushed((maintenance, "flush"))),
    "a rewind's files are not synced": ("rewind", _unflushed((branches, "flush_tree"))),
    "a repaired log's name is not synced": ("repair", _unflushed((maintenance, "flush"))),
    "secrets are not synced": ("creation", _unflushed((state, "flush_all"))),
    "checkpoints are not synced": ("node", _unflushed((state_files, "flush"))),
    "the journal is not synced": ("node", _ignored(".jsonl")),
    "a new segment's name is not synced": ("node", _unflushed((journal, "flush"))),
}
