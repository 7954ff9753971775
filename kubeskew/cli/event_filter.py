"""Chooses rows of the log by what they are about, who wrote them and when."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

from kubeskew.apimachinery.suggestions import did_you_mean
from kubeskew.cluster.failures import UserError
from kubeskew.conformance.durations import seconds
from kubeskew.conformance.errors import ScenarioError

VERBS = (
    *("create", "update", "delete", "started", "stopped", "killed", "failed", "crashed"),
    *("fault-set", "fault-fired", "fault-cleared", "forked", "rewound"),
)
_TIME_OF_DAY = re.compile(r"[0-2]?\d:[0-5]\d(:[0-5]\d(\.\d+)?)?")
_PREFIXES = (
    "kube-",
    "driver-plugin/",
    "driver/",
)  # which the log has before some names, and not before others

Bound = int | datetime | None  # a revision, or a moment


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Decides which rows are wanted; what is empty or None does not count. In names `*` is any text."""

    namespace: str = ""
    name: str = ""
    user: str = ""
    verbs: Collection[str] = ()
    components: Sequence[str] = ()
    since: Bound = None
    until: Bound = None

    def takes(self, row: Mapping[str, Any]) -> bool:
        """Decides whether a row is wanted."""
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
        """Decides whether a row is older than all that are wanted."""
        if isinstance(self.since, datetime):
            return datetime.fromisoformat(row["time"]) < self.since
        return False  # who reads the log begins behind a revision

    def is_behind(self, row: Mapping[str, Any]) -> bool:
        """Decides whether a row is newer than all that are wanted."""
        if isinstance(self.until, datetime):
            return datetime.fromisoformat(row["time"]) > self.until
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
    """Returns the verbs of texts that may have several, with commas. Raises UserError for an unknown one."""
    found = [verb for text in verbs for verb in text.split(",") if verb]
    for verb in found:
        if verb not in VERBS:
            raise UserError(f"--verb {verb}: known are {', '.join(VERBS)}{did_you_mean(verb, VERBS)}")
    return found


def parse_bound(text: str | None, flag: str, now: datetime) -> Bound:
    """Returns the revision or the moment that a text means. Raises UserError."""
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
