"""Says beforehand what an API server of another version would make of the stored objects.

Each object is read by that server's own codec. What cannot be decoded makes reads fail. What is decoded loses
with the next write the fields that the version does not know. What the version does not serve stays stored,
where nobody sees it. Defaults that a version adds are no change. Custom resources do not depend on the
version and are left out.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from kubeskew.apimachinery.catalogue.table import Catalogue, catalogue_for
from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import SUPPORTED, Version
from kubeskew.apiserver.registry.codec import Codec
from kubeskew.apiserver.storage.encoding import loads
from kubeskew.apiserver.storage.records import Entry, Key
from kubeskew.apiserver.unreadable import UnreadableError, decoded
from kubeskew.apiserver.webhooks.client import CallError
from kubeskew.conformance.evidence.changes import changes

UNREADABLE, UNSERVED, LOST, CHANGED = "unreadable", "unserved", "lost", "changed"


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """One thing that happens to one object. `details` are the decoder's words, or the fields."""

    key: Key
    revision: int
    stored: str  # the apiVersion that it is stored in
    what: str
    details: tuple[str, ...] = ()


def audit(entries: Iterable[Entry], version: Version, gates: FeatureGates) -> list[AuditFinding]:
    """Returns what a server of the version would make of the objects, in the order of their keys."""
    table = catalogue_for(version, gates)
    codec = Codec(table, Environment(version, gates, SystemClock(), SeededEntropy(0)), NoWebhooks())
    found = []
    for entry in sorted(entries, key=lambda entry: entry.key):
        found += [AuditFinding(entry.key, entry.revision, *each) for each in _of_entry(codec, table, entry)]
    return found


class NoWebhooks:
    """Stands in for conversion webhooks (`ReviewClient`): an audit reads a log and calls nobody."""

    async def post(self, config: Object, review: Object, seconds: float) -> Object:
        raise CallError("an audit of stored objects calls no webhooks")


def _of_entry(codec: Codec, table: Catalogue, entry: Entry) -> Iterator[tuple[Any, ...]]:
    try:
        stored = decoded(entry.value)
    except UnreadableError as error:
        yield "", UNREADABLE, (error.text,)
        return
    api_version = stored["apiVersion"]
    if _is_custom(stored):
        return
    try:
        resource = _resource(table, stored)
        if resource is None:
            codec.current(entry.value, entry.revision)
        read = loads(codec.served(resource, entry.value, entry.revision))
    except UnreadableError as error:
        yield api_version, UNREADABLE, (error.text,)
        return
    if not _is_served(table, stored):
        yield api_version, UNSERVED
    differing = changes(stored, read)
    lost = tuple(str(change)[2:] for change in differing if change.op == "remove")
    changed = tuple(str(change) for change in differing if change.op == "replace")
    if lost:
        yield api_version, LOST, lost
    if changed:
        yield api_version, CHANGED, changed


def _resource(table: Catalogue, obj: Object) -> Any:
    group, _, version = obj["apiVersion"].rpartition("/")
    return table.by_kind(group, version, obj["kind"])


def _is_served(table: Catalogue, obj: Object) -> bool:
    """Returns whether the kind is served in any version of its group."""
    group = obj["apiVersion"].rpartition("/")[0]
    plural = _resource(table, obj).plural
    return any(
        table.resource(name, version, plural)
        for name, versions in table.groups()
        for version in versions
        if name == group
    )


def _is_custom(obj: Object) -> bool:
    """Returns whether no release has the object's kind built in."""
    group, _, version = obj["apiVersion"].rpartition("/")
    return all(
        catalogue_for(each).by_kind(group, version, obj["kind"]) is None for each in reversed(SUPPORTED)
    )
