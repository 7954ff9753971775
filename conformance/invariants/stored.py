"""Judges what is stored: I10 stored-readable, I12 no-silent-field-loss, I13 reads-go-forward, I25
reads-alike."""

from collections.abc import Callable, Iterator, Sequence

from kubeskew.apimachinery.component_names import kind_of
from kubeskew.apimachinery.objects import ObjectView
from kubeskew.conformance.invariants.cluster import Change, Cluster, named, uid_of
from kubeskew.conformance.invariants.fields import Path, value_at
from kubeskew.conformance.invariants.invariant import Evidence, LivenessInvariant, SafetyInvariant

# Returns why a server of a version cannot read an object; empty if it can.
Unreadable = Callable[[str, ObjectView], str]
# Returns the paths of an object that a server of a version does not know.
UnknownFields = Callable[[str, ObjectView], Sequence[Path]]


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
