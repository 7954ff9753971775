"""Records what became of every object of a run, in a form that can be compared with another run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from kubeskew.conformance.evidence.log import ComponentChange, Logged, Write
from kubeskew.conformance.evidence.scrubbing import Fact, GeneratedNames, facts

# Renewed or repeated whatever happens; their writes tell nothing of a feature.
_IGNORED = frozenset({"leases.coordination.k8s.io", "events", "events.events.k8s.io"})
# Deleted and published anew whenever a kubelet or a driver restarts: no news of its version or gates.
_REPUBLISHED = frozenset({"resourceslices.resource.k8s.io"})
# The API server's own address, another one in every run.
_SERVER = ("default", "kubernetes")
GONE: Fact = ("", "deleted")

Subject = tuple[str, str, str]  # resource, namespace, name as it would be in every run


@dataclass(frozen=True, slots=True)
class FirstWrite:
    """The write that first showed a fact."""

    revision: int
    time: str
    by: str
    name: str  # of the object in this run


@dataclass(slots=True)
class Record:
    """All facts ever seen, and the state at the end of every step; `ends` are the revisions of these.

    `digest` is of the whole log in its order, after scrubbing: two runs that did the same in the same order
    have the same one. Processes run side by side, so that their order, and with it the digest, may differ.
    """

    ends: Sequence[int]
    digest: str = ""
    seen: dict[tuple[Subject, Fact], FirstWrite] = field(default_factory=dict)
    states: list[frozenset[tuple[Subject, Fact]]] = field(default_factory=list)


def record(log: Iterable[Logged], ends: Sequence[int]) -> Record:
    """From a log in order; `ends` are the revisions at which the steps ended, in order."""
    found, names = Record(ends), GeneratedNames()
    current: dict[Subject, frozenset[Fact]] = {}
    waiting = list(ends)
    digest = sha256()
    for entry in log:
        if isinstance(entry, ComponentChange):
            digest.update(repr((entry.component, entry.what, entry.version, entry.gates)).encode())
            continue
        if _says_nothing(entry):
            continue
        while waiting and entry.revision > waiting[0]:
            waiting.pop(0)
            found.states.append(_state(current))
        names.learn(entry)
        subject = (entry.resource, entry.namespace, names(entry.name))
        now = frozenset({GONE} if entry.verb == "delete" else facts(entry.value, names))
        sighting = FirstWrite(entry.revision, entry.time, entry.by, entry.name)
        for fact in sorted(now - current.get(subject, frozenset())):
            found.seen.setdefault((subject, fact), sighting)
        current[subject] = now
        digest.update(repr((entry.verb, subject, entry.by, sorted(now))).encode())
        if entry.verb == "delete" and entry.resource in _REPUBLISHED:
            names.release(entry)
    found.states += [_state(current)] * len(waiting)
    found.digest = digest.hexdigest()
    return found


def _says_nothing(write: Write) -> bool:
    return write.resource in _IGNORED or (write.namespace, write.name) == _SERVER


def _state(current: dict[Subject, frozenset[Fact]]) -> frozenset[tuple[Subject, Fact]]:
    return frozenset((subject, fact) for subject, now in current.items() for fact in now)
