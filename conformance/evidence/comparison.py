"""Compares runs, and the branches of a forked cluster, by their objects.

Times, generated names and other values that differ in every run are taken out of objects first.

Writes are compared by their effects, not one by one: which of two components is first, or whether a status
comes in one write or two, is chance. At the end of each step, every fact of one run must have been seen in
the other at some time. The first step where that fails is where they parted, and there the first write with a
fact that the other never had. Of branches, the objects of each are compared as they are now.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple

from kubeskew.conformance.evidence.log import ComponentChange, Logged, Write
from kubeskew.conformance.evidence.secrets import digested

# Fields that say when, where or which copy; none says what happened.
_VOLATILE = {
    *("uid", "resourceVersion", "managedFields", "generation", "observedGeneration", "selfLink"),
    *("containerID", "imageID", "podIP", "podIPs", "hostIP", "hostIPs", "addresses", "kubeletEndpoint"),
    *("clusterIP", "clusterIPs", "nodePort", "systemUUID", "bootID", "machineID"),
}
_TIMES = re.compile(r"(Time|Timestamp|At)$")
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_PEM = re.compile(r"-----BEGIN [A-Z ]+-----.*?-----END [A-Z ]+-----", re.DOTALL)
_TOKEN_VOLUME = re.compile(r"(?<=kube-api-access-)[a-z0-9]{5}\b")  # admission draws it
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_CHANCE = ((_PEM, "<PEM>"), (_UUID, "<uid>"), (_MOMENT, "<time>"), (_TOKEN_VOLUME, "#"))
# In texts for people: parts of names that a server or the time makes, addresses, and how long or when it was.
_DRAWN = "[bcdfghjklmnpqrstvwxz2456789]"
_SUFFIX = re.compile(rf"-(?:\d{{8}}-|{_DRAWN}{{8,10}}-)?{_DRAWN}{{5}}\b|-{_DRAWN}{{8,10}}\b|-\d{{8}}\b")
_EVENT_NAME = re.compile(r"\.[0-9a-f]{16}\b")
_ADDRESS = re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b")
_LENGTH = re.compile(r"\b\d+(?:\.\d+)?(?:ms|µs|s)\b")
_REVISION = re.compile(r"\b(revision|resourceVersion) \d+")
_IN_TEXTS = (
    *((_EVENT_NAME, ".#"), (_SUFFIX, "-#"), (_ADDRESS, "<address>")),
    *((_LENGTH, "<time>"), (_REVISION, r"\1 #")),
)
# Objects that are named by the hash of a template, which depends on the release: the label that has it.
_HASHED = {
    "replicasets.apps": "pod-template-hash",
    "controllerrevisions.apps": "controller.kubernetes.io/hash",
}
_KEYS = ("name", "type", "containerName", "device", "key", "uid")  # keys that identify items of a list

Fact = tuple[str, str]  # path, value
# Renewed or repeated in any case; their writes show nothing of a feature.
_EVENTS = frozenset({"events", "events.events.k8s.io"})
_IGNORED = frozenset({"leases.coordination.k8s.io", *_EVENTS})
# Deleted and published again whenever a kubelet or a driver restarts: no news of its version or gates.
_REPUBLISHED = frozenset({"resourceslices.resource.k8s.io"})
# The API server's own address, another one in every run.
_SERVER = ("default", "kubernetes")
GONE: Fact = ("", "deleted")

Subject = tuple[str, str, str]  # resource, namespace, name as it would be in every run
Sight = tuple[Subject, Fact]
MISSING = "missing"  # the other run has it
EXTRA = "extra"  # the other run never had it
_SHOWN = 12
ABSENT, PRESENT = "absent", "present"
Fields = Mapping[tuple[str, str], Mapping[str, str]]  # (resource, name) → path → value


class GeneratedNames:
    """Replaces generated names by what they would be in every run: the prefix, and a number among the objects
    of this prefix."""

    def __init__(self) -> None:
        self._canonical: dict[str, str] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._free: dict[tuple[str, str], list[int]] = {}
        self._pattern: re.Pattern[str] | None = None
        self._known: dict[str, str] = {}  # texts with names replaced, until another name is learnt

    def learn(self, write: Write) -> None:
        if write.resource in _HASHED:
            self._learn_hash(write)
        prefix = write.value["metadata"].get("generateName")
        if not prefix or write.name in self._canonical:
            return
        prefix = self(prefix)
        self._canonical[write.name] = f"{prefix}#{self._number((write.resource, prefix))}"
        self._pattern = None

    def _learn_hash(self, write: Write) -> None:
        """The hash is a number among the templates of the object that has them."""
        hashed = (write.value["metadata"].get("labels") or {}).get(_HASHED[write.resource], "")
        owner = write.name.removesuffix(f"-{hashed}")
        if hashed and owner != write.name and hashed not in self._canonical:
            self._canonical[hashed] = f"#{self._number((write.resource, owner))}"
            self._pattern = None

    def _number(self, kind: tuple[str, str]) -> int:
        if self._free.get(kind):
            return self._free[kind].pop(0)
        self._counts[kind] = self._counts.get(kind, 0) + 1
        return self._counts[kind]

    def release(self, write: Write) -> None:
        """An object that is published again after its deletion gets the number that is free now: it is the
        same thing."""
        prefix, _, number = self._canonical.get(write.name, "").rpartition("#")
        if prefix:
            self._free.setdefault((write.resource, prefix), []).append(int(number))

    def __call__(self, text: str) -> str:
        known = self._known.get(text)
        if known is not None and self._pattern is not None:
            return known
        if self._pattern is None:
            names = sorted(self._canonical, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, names)) or r"(?!)")
            self._known.clear()
        known = self._pattern.sub(lambda match: self._canonical[match[0]], text)
        for pattern, what in _CHANCE:
            known = pattern.sub(what, known)
        self._known[text] = known
        return known


def scrubbed(text: str) -> str:
    """A text for people as it would be in every run."""
    for pattern, instead in (*_CHANCE, *_IN_TEXTS):
        text = pattern.sub(instead, text)
    return text


def facts(value: Mapping[str, Any], names: GeneratedNames) -> list[Fact]:
    """Facts are the leaves of an object that another run of the same kind would have too."""
    found: list[Fact] = []
    _add_leaves("", digested(value), names, found)
    return found


def _add_leaves(path: str, value: Any, names: GeneratedNames, found: list[Fact]) -> None:
    if isinstance(value, dict):
        for name, item in value.items():
            if not _is_volatile(name):
                known = names(name)
                _add_leaves(f"{path}.{known}" if path else known, item, names, found)
    elif isinstance(value, list):
        for item in value:
            _add_leaves(f"{path}[{_label(item, names)}]", item, names, found)
    else:
        found.append((path, names(str(value))))


@lru_cache(maxsize=1 << 14)
def _is_volatile(name: str) -> bool:
    return name in _VOLATILE or _TIMES.search(name) is not None


def _label(item: Any, names: GeneratedNames) -> str:
    """Items are never labelled by position, which others that come before them change."""
    if not isinstance(item, dict):
        return ""
    for key in _KEYS:
        if isinstance(item.get(key), str):
            return f"{key}={names(item[key])}"
    return sha256(repr(sorted(facts(item, names))).encode()).hexdigest()[:6]


@dataclass(frozen=True, slots=True)
class FirstWrite:
    """The write that first showed a fact."""

    revision: int
    time: str
    by: str
    name: str  # of the object in this run


@dataclass(slots=True)
class Record:
    """All facts that were ever seen, and the state at the end of every step; `ends` are the revisions of
    these states.

    `digest` is of the whole log in its order, after scrubbing: two runs that did the same in the same order
    have the same one. Processes run side by side, so that their order, and with it the digest, may differ.
    """

    ends: Sequence[int]
    digest: str = ""
    seen: dict[Sight, FirstWrite] = field(default_factory=dict)
    events: dict["SeenEvent", int] = field(default_factory=dict)  # by the revision at which each came first
    states: list[frozenset[Sight]] = field(default_factory=list)


class SeenEvent(NamedTuple):
    """An Event of the API as it would be in every run; `about` is kind, namespace and name of its object."""

    type: str
    reason: str
    about: str
    message: str


def _event(value: Mapping[str, Any], names: GeneratedNames) -> SeenEvent:
    """Events are stored as those of v1 or of events.k8s.io/v1, which name some fields otherwise."""
    about = value.get("involvedObject") or value.get("regarding") or {}
    place = "/".join(filter(None, (about.get("namespace"), about.get("name"))))
    message = value.get("message") or value.get("note") or ""
    texts = f"{about.get('kind', '')} {names(place)}", scrubbed(names(message))
    return SeenEvent(value.get("type") or "", value.get("reason") or "", *texts)


def record(log: Iterable[Logged], ends: Sequence[int]) -> Record:
    """The log is in order; `ends` are the revisions at which the steps ended, in order."""
    found, names = Record(ends), GeneratedNames()
    current: dict[Subject, frozenset[Sight]] = {}
    waiting = list(ends)
    digest = sha256()
    for entry in log:
        if isinstance(entry, ComponentChange):
            digest.update(repr((entry.component, entry.what, entry.version, entry.gates)).encode())
            continue
        if _says_nothing(entry):
            if entry.resource in _EVENTS and entry.verb != "delete":
                found.events.setdefault(_event(entry.value, names), entry.revision)
            continue
        while waiting and entry.revision > waiting[0]:
            waiting.pop(0)
            found.states.append(frozenset().union(*current.values()))
        names.learn(entry)
        subject = (entry.resource, entry.namespace, names(entry.name))
        shown = [GONE] if entry.verb == "delete" else sorted({*facts(entry.value, names)})
        now = frozenset((subject, fact) for fact in shown)
        sighting = FirstWrite(entry.revision, entry.time, entry.by, entry.name)
        for sight in sorted(now - current.get(subject, frozenset())):
            found.seen.setdefault(sight, sighting)
        current[subject] = now
        digest.update(repr((entry.verb, subject, entry.by, shown)).encode())
        if entry.verb == "delete" and entry.resource in _REPUBLISHED:
            names.release(entry)
    found.states += [frozenset().union(*current.values())] * len(waiting)
    found.digest = digest.hexdigest()
    return found


def _says_nothing(write: Write) -> bool:
    return write.resource in _IGNORED or (write.namespace, write.name) == _SERVER


@dataclass(frozen=True, slots=True, order=True)
class Difference:
    """One fact that only one of the runs has; revision, time and writer are of the run that has it."""

    kind: str
    resource: str
    namespace: str
    name: str
    path: str
    value: str
    revision: int
    time: str
    by: str


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first step in which two runs differ, and how: the first write's differences first."""

    baseline: str
    step: str
    differences: Sequence[Difference]
    total: int

    @property
    def first(self) -> Difference:
        return self.differences[0]


def diverged(run: Record, other: Record, baseline: str, steps: Sequence[str]) -> Divergence | None:
    """`other` is the baseline; None if the runs do not differ in the steps that both have."""
    for index, step in enumerate(steps[: min(len(run.states), len(other.states))]):
        missing = [(each, MISSING, other) for each in sorted(other.states[index] - run.seen.keys())]
        extra = [(each, EXTRA, run) for each in sorted(run.states[index] - other.seen.keys())]
        if missing or extra:
            found = [difference for _, difference in sorted(_differences(missing + extra, index))]
            return Divergence(baseline, step, found[:_SHOWN], len(found))
    return None


def _differences(
    found: Sequence[tuple[tuple[Subject, Fact], str, Record]], step: int
) -> Iterator[tuple[int, Difference]]:
    """Each difference has the number of revisions from the step's beginning to its write, in its own run."""
    for (subject, fact), kind, owner in found:
        sighting = owner.seen[subject, fact]
        began = owner.ends[step - 1] if step else 0
        yield (
            sighting.revision - began,
            Difference(
                *(kind, *subject[:2], sighting.name, *fact),
                *(sighting.revision, sighting.time, sighting.by),
            ),
        )


@dataclass(frozen=True, slots=True)
class BranchDifference:
    """A field of an object differs between branches; the path is empty of an object that only some branches
    have."""

    object: str  # pods/web-0
    path: str
    values: Mapping[str, str]  # by branch

    def __str__(self) -> str:
        values = ", ".join(f"{branch} {value}" for branch, value in self.values.items())
        return f"{self.object}: {f'{self.path}: ' if self.path else ''}{values}"


@dataclass(frozen=True, slots=True)
class ExpectedDifference:
    """A scenario names the difference. In object and path `*` stands for any text; values of branches may be
    left out."""

    object: str
    path: str
    values: Mapping[str, str]

    def matches(self, found: BranchDifference) -> bool:
        return (
            _fits(found.object, self.object)
            and _fits(found.path, self.path)
            and all(found.values.get(branch) == value for branch, value in self.values.items())
        )

    def __str__(self) -> str:
        return str(BranchDifference(self.object, self.path, self.values)).rstrip(": ")


def _fits(text: str, pattern: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text) is not None


def fields(log: Iterable[Logged], namespace: str, resources: Collection[str]) -> Fields:
    """The objects are as the log leaves them: those of a namespace or, of the `resources` if there are any,
    also those without one. Names are as they would be in every run."""
    state = record(_until_end(log), [_LAST]).states[-1]
    found: dict[tuple[str, str], dict[str, list[str]]] = {}
    for (resource, place, name), fact in sorted(state):
        plural = resource.partition(".")[0]
        wanted = {resource, plural} & {*resources} if resources else bool(place)
        if wanted and place in ("", namespace) and fact != GONE:
            path, value = fact
            found.setdefault((plural, name), {}).setdefault(path, []).append(value)
    return {key: {path: ", ".join(values) for path, values in paths.items()} for key, paths in found.items()}


_LAST = 2**62  # no log goes as far


def _until_end(log: Iterable[Logged]) -> Iterable[Logged]:
    return (entry for entry in log if isinstance(entry, Write))


def differences(branches: Mapping[str, Fields]) -> list[BranchDifference]:
    """Differences come in the order of objects and paths."""
    found = []
    for key in sorted({key for each in branches.values() for key in each}):
        resource, name = key
        there = {branch: ABSENT if key not in each else PRESENT for branch, each in branches.items()}
        if ABSENT in there.values():
            found.append(BranchDifference(f"{resource}/{name}", "", there))
            continue
        for path in sorted({path for each in branches.values() for path in each[key]}):
            values = {branch: each[key].get(path, ABSENT) for branch, each in branches.items()}
            if len({*values.values()}) > 1:
                found.append(BranchDifference(f"{resource}/{name}", path, values))
    return found


def unexpected(
    found: Sequence[BranchDifference], expected: Sequence[ExpectedDifference]
) -> tuple[list[BranchDifference], list[ExpectedDifference]]:
    """Differences that no entry names come first, then the entries that no difference fits."""
    extra = [each for each in found if not any(entry.matches(each) for entry in expected)]
    missing = [entry for entry in expected if not any(map(entry.matches, found))]
    return extra, missing
