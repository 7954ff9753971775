"""Holds the metadata of the store, outside the log: how far it is compacted, and the notes of a repair."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import orjson

from kubeskew.apiserver.storage.records import EMPTY_REVISION
from kubeskew.apiserver.storage.sessions import Session

Range = tuple[int, int]  # the first and the last


@dataclass(frozen=True, slots=True)
class Metadata:
    """Holds the rows of `meta`; a store that was neither compacted nor repaired has but its id."""

    compacted: int = 0  # the revision of the last compaction
    retained: int = 0  # events that it has left at or before that revision, `missing` ones included
    floor: int = 0  # the revision that the next one counts on from, though the log may end earlier
    lost: Sequence[Range] = ()  # revisions that are gone
    missing: int = 0  # events that are gone, those among the retained included
    damaged: frozenset[int] = frozenset()  # revisions of events that are not what was written
    unreadable: frozenset[int] = frozenset()  # those of them that objects were left by, which are lost
    digest_offset: int = 0  # what the projection has more than the digest of the newest event
    store_id: str = ""  # another one in every branch

    @classmethod
    def read(cls, session: Session) -> Self:
        """Reads the metadata of the store."""
        values = dict(session.all("meta"))
        return cls(
            compacted=int(values.get("compacted", 0)),
            retained=int(values.get("retained", 0)),
            floor=int(values.get("floor", 0)),
            lost=tuple((first, last) for first, last in orjson.loads(values.get("lost", "[]"))),
            missing=int(values.get("missing", 0)),
            damaged=frozenset(orjson.loads(values.get("damaged", "[]"))),
            unreadable=frozenset(orjson.loads(values.get("unreadable", "[]"))),
            digest_offset=int(values.get("digest_offset", 0)),
            store_id=values.get("store_id", ""),
        )

    @property
    def base(self) -> int:
        """Returns the revision after which the log has every event."""
        return self.compacted or EMPTY_REVISION

    @property
    def horizon(self) -> int:
        """Returns the oldest revision whose successors are all known: behind compactions and lost
        revisions.
        """
        return max(self.compacted, self.floor)

    def expected(self, head: int) -> int:
        """Returns the number of events in a log whose newest revision is `head`."""
        return head - self.base + self.retained - self.missing

    def rows(self) -> list[tuple[str, str]]:
        """Returns the rows of `meta` that say this; none for what is as in a new store."""
        values = {
            "compacted": self.compacted,
            "retained": self.retained,
            "floor": self.floor,
            "lost": orjson.dumps(self.lost).decode() if self.lost else "",
            "missing": self.missing,
            "damaged": orjson.dumps(sorted(self.damaged)).decode() if self.damaged else "",
            "unreadable": orjson.dumps(sorted(self.unreadable)).decode() if self.unreadable else "",
            "digest_offset": self.digest_offset,
            "store_id": self.store_id,
        }
        return [(name, str(value)) for name, value in values.items() if value]
