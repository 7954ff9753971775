"""Audit events of a real API server, which say who wrote what of the log that its shim keeps.

The events come in batches to a webhook of the shim's, soon after the answers of their requests. A request
that changed nothing answers the revision of somebody else's write, and its event may come first: so claims
are kept for a while, and a write gets an author only if they then agree.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import orjson

from kubeskew.apimachinery.clock import Clock
from kubeskew.apiserver.storage.etcd.authors import Claim, Ground, Written, claims_of, joined, written_of
from kubeskew.apiserver.storage.etcd.log_backing import API_SERVER
from kubeskew.apiserver.storage.interfaces import CompactedError, Log, StorageError
from kubeskew.apiserver.storage.records import Author, Event, Place

SETTLE_SECONDS = 1.0  # longer than what the API server waits for a batch to become full
WRITES_KEPT = 20_000
CLAIMS_KEPT = 20_000
_GAP = 100  # revisions that nobody asks for and that are read all the same, rather than twice
_READ_EVENTS = 500
_OK, _BAD_REQUEST = 200, 400

log = logging.getLogger(__name__)


class AuditSink:
    """Learns the authors of the writes that this process makes, and of older ones by their revisions.

    `component_of` finds component and version in a user agent. It has to be made before the log is written.
    """

    def __init__(
        self,
        kept: Log,
        clock: Clock,
        server_version: str,
        component_of: Callable[[str], tuple[str, str]],
        unknown: Author = API_SERVER,
    ) -> None:
        self._log = kept
        self._clock = clock
        self._server_version = server_version
        self._component_of = component_of
        self._unknown = unknown
        self._writes: dict[Place, Written] = {}  # the oldest comes first
        self._places: dict[Ground, list[Place]] = {}
        self._since: int | None = None  # what is newer is among the writes, settled, or of others
        self._claims: deque[tuple[float, Claim]] = deque()  # with the times at which they count
        self._unkept: list[tuple[Place, Author]] = []  # that the database has refused
        self._settling: asyncio.Task[None] | None = None
        kept.subscribe(self._written)

    def _written(self, events: Sequence[Event]) -> None:
        if self._since is None:
            self._since = events[0].revision - 1
        for event in events:
            if event.author == self._unknown:
                written = written_of(event)
                self._writes[written.place] = written
                for ground in written.grounds:
                    self._places.setdefault(ground, []).append(written.place)
        while len(self._writes) > WRITES_KEPT:
            place = next(iter(self._writes))
            self._since = max(self._since, place[0])
            self._forget(place)

    def _forget(self, place: Place) -> None:
        for ground in self._writes.pop(place).grounds:
            places = self._places[ground]
            places.remove(place)
            if not places:
                del self._places[ground]

    async def received(self, body: bytes) -> int:
        """Takes what the API server posts, and gives the status of the answer."""
        items = _items(body)
        if items is None:
            return _BAD_REQUEST
        due = self._clock.monotonic() + SETTLE_SECONDS
        for item in items:
            claims = claims_of(item, self._server_version, self._component_of)
            self._claims.extend((due, claim) for claim in claims)
        if len(self._claims) > CLAIMS_KEPT:
            await self._settle(len(self._claims) - CLAIMS_KEPT)
        if self._claims and (self._settling is None or self._settling.done()):
            self._settling = asyncio.create_task(self._run(), name="authors by audit events")
        return _OK

    async def _run(self) -> None:
        while self._claims or self._unkept:
            due = self._claims[0][0] if self._claims else self._clock.monotonic() + SETTLE_SECONDS
            await self._clock.sleep(due - self._clock.monotonic())
            now = self._clock.monotonic()
            try:
                await self._settle(sum(due <= now for due, _ in self._claims))
            except Exception:
                log.exception("cannot keep authors by audit events")

    async def _settle(self, count: int) -> None:
        """Decides the writes of the oldest `count` claims; all claims there are count."""
        counting = [self._claims.popleft()[1] for _ in range(min(count, len(self._claims)))]
        writes: dict[Place, Written] = {}
        older: set[int] = set()
        for claim in counting:
            near = [self._writes[place] for place in self._places.get(claim.ground, ())]
            writes.update((written.place, written) for written in near if claim.fits(written))
            if claim.ground[0] == "revision" and (self._since is None or int(claim.ground[1]) <= self._since):
                older.add(int(claim.ground[1]))
        for place in writes:
            self._forget(place)
        claims = [*counting, *(claim for _, claim in self._claims)]
        found = [*joined(writes.values(), claims)]
        await self._keep(found)
        if older:
            await self._keep([*joined(await self._read(older), claims)])

    async def _keep(self, found: Iterable[tuple[Place, Author]]) -> None:
        self._unkept += found
        keeping = [*self._unkept]
        if not keeping:
            return
        try:
            await self._log.attribute(keeping)
        except StorageError as error:
            log.warning("cannot keep authors: %s", error)
            del self._unkept[:-WRITES_KEPT]
        else:
            kept = set(keeping)
            self._unkept = [item for item in self._unkept if item not in kept]

    async def _read(self, revisions: Iterable[int]) -> Sequence[Written]:
        """Reads what was written before this process, or has been forgotten; what is gone is left out."""
        wanted, found = set(revisions), []
        for first, last in _ranges(sorted(wanted)):
            with suppress(CompactedError, StorageError):
                after = max(first - 1, await self._log.compacted())
                while events := await self._log.after(after, _READ_EVENTS, until=last):
                    after = events[-1].revision
                    found += [
                        written_of(event)
                        for event in events
                        if event.revision in wanted and event.author == self._unknown
                    ]
        return found

    async def close(self) -> None:
        """Decides what has come; the log is to be open still."""
        if self._settling is not None:
            self._settling.cancel()
            with suppress(asyncio.CancelledError):
                await self._settling
        await self._settle(len(self._claims))


def _items(body: bytes) -> list[Mapping[str, Any]] | None:
    """None if the body is no EventList."""
    try:
        events: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(events, dict) or events.get("kind") != "EventList":
        return None
    items = events.get("items")
    if events.get("apiVersion") != "audit.k8s.io/v1" or not isinstance(items, list):
        return None
    return [item for item in items if isinstance(item, dict)]


def _ranges(revisions: Sequence[int]) -> Iterator[tuple[int, int]]:
    first = last = revisions[0]
    for revision in revisions[1:]:
        if revision > last + _GAP:
            yield first, last
            first = revision
        last = revision
    yield first, last


def audit_policy() -> dict[str, Any]:
    """The content of the file of `--audit-policy-file`: all writes with their answers, and nothing else.

    Reviews and tokens are created, but not written.
    """
    unwritten = [
        {"group": "authentication.k8s.io"},
        {"group": "authorization.k8s.io"},
        {"group": "", "resources": ["serviceaccounts/token"]},
    ]
    verbs = ["create", "update", "patch", "delete", "deletecollection"]
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "omitManagedFields": True,
        "rules": [
            {"level": "None", "resources": unwritten},
            {"level": "RequestResponse", "verbs": verbs},
            {"level": "None"},
        ],
    }
