"""The rows of a cluster's log for `kubeskew events`.

Rows are chosen by resource, named as for kubectl, by object, by writer, by time, or by an expression in CEL.
celpy evaluates that: the CEL of the components has the limits and texts of their releases, which are of no
use here. It is imported at the first expression.
"""

import re
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

from kubeskew.apimachinery.catalogue.data import resource_rows, store_of
from kubeskew.apimachinery.clock import Clock, parse_timestamp
from kubeskew.apimachinery.known_names import did_you_mean
from kubeskew.apiserver.storage.interfaces import CompactedError, FutureRevisionError
from kubeskew.apiserver.storage.sql_log import LogReader
from kubeskew.cluster.failures import UserError
from kubeskew.cluster.revisions import unkept
from kubeskew.conformance.chainsaw import seconds
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.evidence.rows import Row, rows

VERBS = (
    *("create", "update", "delete", "started", "stopped", "killed", "ended", "failed", "crashed"),
    *("fault-set", "fault-fired", "fault-cleared", "forked", "rewound"),
)
_TIME_OF_DAY = re.compile(r"[0-2]?\d:[0-5]\d(:[0-5]\d(\.\d+)?)?")
_PREFIXES = (
    "kube-",
    "driver-plugin/",
    "driver/",
)  # prefixes of some names in the log

Bound = int | datetime | None  # a revision, or a moment
FIELDS = ("revision", "time", "verb", "object", "by", "user", "server", "request")


def resource_of(text: str, logged: Collection[str]) -> str:
    """`text` is plural, singular, short name or kind, with the group after a dot if needed; the result is the
    log's name of the resource.

    `logged` are the names in the log: custom resources are known by their plural alone. Raises UserError.
    """
    wanted = text.lower()
    names: dict[str, set[str]] = {}
    for row in resource_rows():
        full = f"{row['r']}.{row['g']}".rstrip(".")
        for name in (row["r"], row["s"], row["k"].lower(), *row.get("short", ())):
            for spelt in (name, f"{name}.{row['g']}".rstrip(".")):
                names.setdefault(spelt, set()).add(store_of(full))
    for full in logged:
        for name in (full, full.partition(".")[0]):
            names.setdefault(name, set()).add(full)
    found = sorted(names.get(wanted, ()))
    there = [name for name in found if name in logged]
    if len(there) == 1:
        return there[0]
    if wanted in found:  # of the core group, which kubectl prefers
        return wanted
    if len(found) == 1:
        return found[0]
    if found:
        raise UserError(f"{text} is ambiguous: say {' or '.join(there or found)}")
    raise UserError(f"there is no resource {text}{did_you_mean(wanted, names)}")


async def events_since(
    url: str,
    since: int,
    resource: str | None = None,
    *,
    until: int | None = None,
    follow: Clock | None = None,
    is_current: Callable[[], bool] = lambda: True,
) -> AsyncGenerator[Row, None]:
    """Yields the rows after a revision; with a clock to `follow`, it ends only with StorageError, when the
    log is not `is_current` any more.

    `resource` is named as `resource_of` takes it. Raises UserError for one that is unknown or ambiguous, and
    if `until`, the last revision that is wanted, is among those that are compacted.
    """
    async with await LogReader.open(url) as reader:
        if resource is not None:
            resource = resource_of(resource, await reader.resources())
        if since > (newest := await reader.revision()):
            raise unkept(FutureRevisionError(since, newest))
        horizon = await reader.horizon()
        if until is not None and horizon and until <= horizon:
            raise UserError(f"--until: {unkept(CompactedError(until, horizon))}")
        moments = (
            reader.events(since, resource)
            if follow is None
            else reader.follow(follow, since, resource, is_current)
        )
        async for row in rows(moments):
            yield row


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Empty criteria and None do not count. In names `*` matches any text."""

    namespace: str = ""
    name: str = ""
    user: str = ""
    verbs: Collection[str] = ()
    components: Sequence[str] = ()
    since: Bound = None
    until: Bound = None

    def takes(self, row: Mapping[str, Any]) -> bool:
        _, _, place = row["object"].partition(" ")
        namespace, _, name = place.rpartition("/")
        if row["object"].startswith("component "):
            namespace, name = "", place
        return (
            (not self.namespace or fnmatchcase(namespace, self.namespace))
            and (not self.name or fnmatchcase(name, self.name))
            and (not self.user or fnmatchcase(row["user"], self.user))
            and (not self.verbs or row["verb"] in self.verbs)
            and (not self.components or any(map(_named(row), self.components)))
            and not self.is_before(row)
            and not self.is_behind(row)
        )

    def is_before(self, row: Mapping[str, Any]) -> bool:
        if isinstance(self.since, datetime):
            return parse_timestamp(row["time"]) < self.since
        return False  # the reader of the log already begins after a revision

    def is_behind(self, row: Mapping[str, Any]) -> bool:
        if isinstance(self.until, datetime):
            return parse_timestamp(row["time"]) > self.until
        return self.until is not None and row["revision"] > self.until


def _named(row: Mapping[str, Any]) -> Any:
    kind, _, name = row["object"].partition(" ")
    written = name if kind == "component" else row["by"].partition(" ")[0]

    def is_meant(component: str) -> bool:
        wanted, found = _plain(component), _plain(written)
        return fnmatchcase(found, wanted) or found.startswith((f"{wanted}/", f"{wanted}-") if wanted else ())

    return is_meant


def _plain(component: str) -> str:
    for prefix in _PREFIXES:
        component = component.removeprefix(prefix)
    return component


def check_verbs(verbs: Sequence[str]) -> Sequence[str]:
    """Splits texts at commas. Raises UserError for an unknown verb."""
    found = [verb for text in verbs for verb in text.split(",") if verb]
    for verb in found:
        if verb not in VERBS:
            raise UserError(f"--verb {verb}: known are {', '.join(VERBS)}{did_you_mean(verb, VERBS)}")
    return found


def parse_bound(text: str | None, flag: str, now: datetime) -> Bound:
    """Parses a revision, a time of day, a date and time, or a duration before `now`. Raises UserError."""
    if text is None:
        return None
    if text.isdecimal():
        return int(text)
    try:
        if _TIME_OF_DAY.fullmatch(text):
            moment = datetime.fromisoformat(f"{now.date()}T{text.rjust(5, '0')}").replace(tzinfo=UTC)
            return moment if moment <= now else moment - timedelta(days=1)
        if text[:1].isdecimal() and text[-1:] in "smh":
            return now - timedelta(seconds=seconds(text, flag))
        moment = datetime.fromisoformat(text)
    except (ValueError, ScenarioError, OverflowError) as error:
        expected = "a revision (300), a time (17:30:05 or 2026-01-31T17:30:05Z) or how long ago (5m)"
        raise UserError(f"{flag} {text}: expected {expected}") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


class RowFilter:
    """Evaluates a CEL expression over the fields of rows."""

    def __init__(self, expression: str) -> None:
        """An expression that does not parse is a UserError."""
        from celpy import Environment
        from celpy.celparser import CELParseError

        environment = Environment()
        try:
            self._program = environment.program(environment.compile(expression))
        except CELParseError as error:
            why = f"does not parse at column {error.column}"
            raise UserError(f"--where: {why}, where CEL is expected: {expression}") from error

    def takes(self, row: Mapping[str, Any]) -> bool:
        """A value that is neither true nor false is a UserError."""
        from celpy import celtypes
        from celpy.evaluation import CELEvalError

        texts = {name: celtypes.StringType(row[name]) for name in FIELDS if name != "revision"}
        try:
            value = self._program.evaluate({"revision": celtypes.IntType(row["revision"]), **texts})
        except CELEvalError as error:
            why = str(error.args[0]).partition(" (in activation")[0]
            fields = ", ".join(FIELDS)
            raise UserError(f"--where: {why}, at revision {row['revision']}; rows have {fields}") from error
        if not isinstance(value, celtypes.BoolType):
            found = f"{str(value)!r} at revision {row['revision']}"
            raise UserError(f"--where: expected an expression that is true or false, found {found}")
        return bool(value)
