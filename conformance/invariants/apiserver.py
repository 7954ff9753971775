"""Judges the API server: what is stored, addresses and quotas.

These are I10 stored-readable, I12 no-silent-field-loss, I13 reads-go-forward, I25 reads-alike; I20
unique-address; I09 quota-exact. For lost
fields, it finds the fields of stored objects that a release does not know, and whether it knows their kind.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from ipaddress import ip_network
from typing import Any

from kubeskew.apimachinery.catalogue.types import Types, types_of
from kubeskew.apimachinery.errors import GroupResource
from kubeskew.apimachinery.golang.known_fields import known_fields
from kubeskew.apimachinery.known_names import kind_of
from kubeskew.apimachinery.objects import Key, Object, ObjectView, object_key
from kubeskew.apimachinery.pod_resources import is_terminal
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apimachinery.schema import Kind, Schema
from kubeskew.apimachinery.versions import Version, supported
from kubeskew.conformance.evidence.log import uid_of
from kubeskew.conformance.invariants.cluster import Change, Cluster, named
from kubeskew.conformance.invariants.invariant import Evidence, LivenessInvariant, SafetyInvariant

# Steps to a value: names of fields; of an item of a list its name (`name=x`) or its place (`0`).
Path = tuple[str, ...]
# Returns why a server of a version cannot read an object; empty if it can.
Unreadable = Callable[[str, ObjectView], str]
# Returns the paths of an object that a server of a version does not know.
UnknownFields = Callable[[str, ObjectView], Sequence[Path]]
QUOTAS = "resourcequotas"
_API_SERVER = "kube-apiserver"  # begins the name of a writer

# Measures what a quota limits, from the objects of a resource in a namespace, or in none.
Measure = Callable[[Object, Callable[[GroupResource, str], Iterable[Object] | None]], dict[str, Quantity]]


@cache
def _types(version: str) -> Types:
    return types_of(Version.parse(version))


@cache
def _schema(version: str, api_version: str, kind: str) -> Schema | None:
    group, _, name = api_version.rpartition("/")
    return _types(version).of_kind(group, name, kind)


@cache
def _is_built_in(api_version: str, kind: str) -> bool:
    return any(_schema(str(version), api_version, kind) is not None for version in supported())


def unreadable(version: str, obj: ObjectView) -> str:
    """Gives upstream's message if a server of the version cannot decode an object; empty if it can."""
    api_version, kind = str(obj.get("apiVersion") or ""), str(obj.get("kind") or "")
    if _schema(version, api_version, kind) is not None or not _is_built_in(api_version, kind):
        return ""
    return f'no kind "{kind}" is registered for version "{api_version}"'


def unknown_fields(version: str, obj: ObjectView) -> list[Path]:
    """Custom resources have no unknown fields."""
    schema = _schema(version, str(obj.get("apiVersion") or ""), str(obj.get("kind") or ""))
    if schema is None or known_fields(obj, schema) is obj:  # finding the paths takes five times as long
        return []
    return _unknown(obj, schema)


def _unknown(value: ObjectView | list[Any], schema: Schema) -> list[Path]:
    """Paths start at the value."""
    below: list[tuple[str, Any, Schema]] = []
    found: list[Path] = []
    if isinstance(value, list):
        if schema.items is not None:
            below = [(_step(index, entry), entry, schema.items) for index, entry in enumerate(value)]
    elif schema.kind is Kind.OBJECT and not schema.preserve_unknown:
        for name, entry in value.items():
            field = schema.fields.get(name)
            if field is None:
                found.append((name,))
            else:
                below.append((name, entry, field.schema))
    elif schema.kind is Kind.MAP and schema.items is not None:
        below = [(name, entry, schema.items) for name, entry in value.items()]
    for step, entry, its_schema in below:
        if isinstance(entry, dict | list):
            found += [(step, *path) for path in _unknown(entry, its_schema)]
    return found


def _step(index: int, entry: Any) -> str:
    named = isinstance(entry, dict) and isinstance(entry.get("name"), str)
    return f"name={entry['name']}" if named else str(index)


def value_at(obj: Any, path: Path) -> Any:
    """None if there is no value; `MISSING` if a list on the way lacks the item."""
    for step in path:
        if isinstance(obj, list):
            key, equal, name = step.partition("=")
            if equal and key == "name":
                obj = next(
                    (each for each in obj if isinstance(each, Mapping) and each.get("name") == name), MISSING
                )
            else:
                obj = obj[int(step)] if int(step) < len(obj) else MISSING
        elif isinstance(obj, Mapping):
            obj = obj.get(step)
        if obj is None or obj is MISSING:
            return obj
    return obj


MISSING = object()  # an item that was taken out of a list takes its fields with it: nothing is lost silently


class StoredReadable(LivenessInvariant):
    """I10: every stored object can be decoded by every API server that runs."""

    code = "I10"
    name = "stored-readable"

    def __init__(self, unreadable: Unreadable) -> None:
        self._unreadable = unreadable

    def at_end(self, cluster: Cluster, evidence: Evidence, *, at_rest: bool) -> Iterator[str]:
        servers = {each.version for name, each in cluster.components.items() if kind_of(name) == "apiserver"}
        for version in sorted(servers):
            for resource in sorted(cluster.objects):
                for obj in cluster.all(resource):
                    if reason := self._unreadable(version, obj):
                        yield f"an API server {version} cannot read {named(obj)}: {reason}"


class ReadsAlike(LivenessInvariant):
    """I25: an object at one revision reads the same from an API server that has just started.

    Explored runs try it at their end, some of them: they restart the API server and list everything again.
    """

    code = "I25"
    name = "reads-alike"

    def at_end(self, cluster: Cluster, evidence: Evidence, *, at_rest: bool) -> Iterator[str]:
        yield from evidence.rereads


class NoSilentFieldLoss(SafetyInvariant):
    """I12: an update through an older server loses no field that a newer one stored."""

    code = "I12"
    name = "no-silent-field-loss"

    def __init__(self, unknown: UnknownFields) -> None:
        self._unknown = unknown
        self._servers: set[str] = set()

    def see(self, change: Change, cluster: Cluster) -> Iterator[str]:
        server = change.write.server
        self._servers.add(server)
        if change.before is None or change.now is None or len(self._servers) == 1:
            return
        for path in self._unknown(server, change.before):
            old = value_at(change.before, path)
            if old not in (None, {}, [], "") and value_at(change.now, path) is None:
                place = ".".join(path)
                yield f"{change.text} lost {place}, which API server {server} does not know"


class ReadsGoForward(SafetyInvariant):
    """I13: revisions grow, and what a controller says it has seen never goes back."""

    code = "I13"
    name = "reads-go-forward"

    def __init__(self) -> None:
        self._revision = 0

    def see(self, change: Change, cluster: Cluster) -> Iterator[str]:
        revision = change.write.revision
        if revision <= self._revision:
            yield f"{change.text} came after revision {self._revision}"
        self._revision = revision
        before, now = change.before, change.now
        if before is None or now is None:
            return
        if uid_of(before) != uid_of(now):
            yield f"{change.text} has another uid than the object before it, which was not deleted"
            return
        for what, old, new in (
            ("generation", _number(before, "metadata", "generation"), _number(now, "metadata", "generation")),
            (
                "status.observedGeneration",
                _number(before, "status", "observedGeneration"),
                _number(now, "status", "observedGeneration"),
            ),
        ):
            if new < old and (new or what == "generation"):
                yield f"{change.text} takes {what} back from {old} to {new}"
        if before["metadata"].get("deletionTimestamp") and not now["metadata"].get("deletionTimestamp"):
            yield f"{change.text} is not being deleted any more"


def _number(obj: ObjectView, part: str, name: str) -> int:
    value = (obj.get(part) or {}).get(name)
    return value if isinstance(value, int) else 0


class UniqueAddress(SafetyInvariant):
    """I20: no cluster IP, node port, pod IP or pod CIDR is held twice."""

    code = "I20"
    name = "unique-address"

    def see(self, change: Change, cluster: Cluster) -> Iterator[str]:
        if change.now is None or change.write.resource not in {"services", "pods", "nodes"}:
            return
        resource = change.write.resource
        mine = _held(resource, change.now) - (_held(resource, change.before) if change.before else set())
        if not mine:
            return
        for other in cluster.all(resource):
            if uid_of(other) == uid_of(change.now):
                continue
            for address in sorted(mine & _held(resource, other)):
                yield f"{change.text} got {address}, which {named(other)} holds"
            for address in sorted(mine):
                yield from _overlaps(change, address, other)


def _held(resource: str, obj: ObjectView) -> set[str]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if resource == "services":
        addresses = {spec.get("clusterIP"), *(spec.get("clusterIPs") or [])} - {None, "", "None"}
        ports = spec.get("ports") or []
        return addresses | {
            f"node port {port['nodePort']}/{port.get('protocol') or 'TCP'}"
            for port in ports
            if port.get("nodePort")
        }
    if resource == "nodes":
        return {f"CIDR {cidr}" for cidr in spec.get("podCIDRs") or []}
    if spec.get("hostNetwork") or is_terminal(obj):
        return set()
    return {entry["ip"] for entry in status.get("podIPs") or [] if entry.get("ip")}


def _overlaps(change: Change, address: str, other: ObjectView) -> Iterator[str]:
    if not address.startswith("CIDR "):
        return
    mine = ip_network(address.removeprefix("CIDR "))
    for cidr in (other.get("spec") or {}).get("podCIDRs") or []:
        network = ip_network(cidr)
        if network.version == mine.version and network != mine and network.overlaps(mine):
            yield f"{change.text} got {address}, which overlaps {cidr} of {named(other)}"


class QuotaExact:
    """I09: what a quota says is used is what is there, and is never raised beyond what it allows."""

    code = "I09"
    name = "quota-exact"

    def __init__(self, measure: Measure | None = None) -> None:
        """The measure is of the version and gates of the quota controller; without it sums are not
        checked."""
        self._measure = measure
        self._charges: dict[Key, str] = {}  # by quota: the last charge, unless it was counted since
        self._charged: list[Key] = []  # quotas that were charged, and nothing was created since

    def see(self, change: Change, cluster: Cluster) -> Iterator[str]:
        self._note(change)
        if change.write.resource != QUOTAS or change.now is None or change.before is None:
            return
        if not change.write.by.startswith(_API_SERVER):
            return  # the controller counts what is there, also beyond what is allowed
        old, new = _used(change.before), _used(change.now)
        hard = {
            name: Quantity.of(value)
            for name, value in ((change.now.get("spec") or {}).get("hard") or {}).items()
        }
        for name in sorted(new):
            if name in hard and new[name] > hard[name] and new[name] > old.get(name, new[name]):
                admitted, allowed = new[name].canonical(), hard[name].canonical()
                yield f"{change.text} admits {admitted} of {name}, and allows {allowed}"

    def _note(self, change: Change) -> None:
        """Admission charges a quota before the object is stored, so that charges are noted with later
        creations."""
        write = change.write
        if write.resource == QUOTAS and change.now is not None and change.before is not None:
            place = object_key(change.now)
            self._charges.pop(place, None)
            if write.by.startswith(_API_SERVER):
                self._charges[place] = f": {write.by} charged it last, at revision {write.revision}"
                self._charged.append(place)
        elif self._charged and change.before is None and change.now is not None:
            for place in self._charged:
                if place[0] == write.namespace and place in self._charges:
                    self._charges[place] += f", before {named(change.now)} was created"
            self._charged = [place for place in self._charged if place[0] != write.namespace]

    def at_end(self, cluster: Cluster, evidence: Evidence, *, at_rest: bool) -> Iterator[str]:
        if not at_rest or self._measure is None or not cluster.running("controller-manager"):
            return

        def listing(resource: GroupResource, namespace: str) -> Iterable[Object]:
            key = f"{resource.resource}.{resource.group}" if resource.group else resource.resource
            return [dict(obj) for obj in cluster.all(key) if object_key(obj)[0] == namespace]

        for quota in cluster.all(QUOTAS):
            used = _used(quota)
            for name, quantity in sorted(self._measure(dict(quota), listing).items()):
                if used.get(name) != quantity:
                    recorded = used[name].canonical() if name in used else "nothing"
                    charge = self._charges.get(object_key(quota), "")
                    yield (
                        f"{named(quota)} says that {recorded} of {name} is used;"
                        f" it is {quantity.canonical()}{charge}"
                    )


def _used(quota: ObjectView) -> dict[str, Quantity]:
    return {
        name: Quantity.of(value) for name, value in ((quota.get("status") or {}).get("used") or {}).items()
    }
