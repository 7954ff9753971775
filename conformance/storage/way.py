"""Audits the stored objects for a way over several versions, with advice before each step.

Objects that have to be deleted or written again before a step are taken to have been: behind it they are as
they are then. So each finding is reported once, at the first step that it belongs to.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version, minors_between
from kubeskew.apiserver.storage.records import Entry, Key
from kubeskew.apiserver.unreadable import UnreadableError, known_object
from kubeskew.conformance.storage import audit
from kubeskew.conformance.storage.audit import AuditFinding, objects
from kubeskew.conformance.storage.nodes import UNDRAINED, KeptNode, pods_on, read_by, undrained
from kubeskew.conformance.storage.servers import Settings, StorageServer, gates_taken_along, is_custom

# What an operator can do.
DELETE, MIGRATE, CHANGE, SERVE = "delete", "migrate", "change", "serve"
DRAIN, DEFINE, NOTHING = "drain", "define", ""

Kubelets = Mapping[str, FeatureGates]  # by node: version and gates


@dataclass(frozen=True, slots=True)
class StepFinding:
    """A finding at one step: the version that is moved to, and the advice for servers at `at`."""

    to: Version
    found: AuditFinding
    do: str
    at: Version

    @property
    def advice(self) -> str:
        """The text is empty if nothing helps."""
        resource = self.found.key.resource
        return {
            DELETE: f"delete it at {self.at}",
            MIGRATE: f"kubeskew storage migrate {resource} at {self.at}",
            CHANGE: f"change it at {self.at} so that {self.to} takes it, or delete it",
            SERVE: f"serve it at {self.to} (--runtime-config)",
            DRAIN: f"drain the node at {self.at} and delete its {self.found.stored}",
            DEFINE: "name that version in the definition again",
        }.get(self.do, "")


def minors(present: Version, target: Version) -> list[Version]:
    """The way has one minor at a time, without the present one."""
    step = 1 if target > present else -1
    inner = minors_between(present, target)[::step]
    return [*inner, target] if target != present else []


def kubelets_on_way(
    kubelets: Kubelets, present: Version, way: Sequence[Version], by_hand: Mapping[str, bool] | None = None
) -> list[Kubelets]:
    """Kubelets before and at each step of a way on which they follow servers at `present`.

    One that is ahead of the servers on that way stays as it is until they have come there.
    """
    further = max if way[0] > present else min
    return [kubelets] + [
        {node: _moved(gates, further(step, gates.version), by_hand) for node, gates in kubelets.items()}
        for step in way
    ]


def _moved(gates: FeatureGates, to: Version, by_hand: Mapping[str, bool] | None) -> FeatureGates:
    """Known bugs that were switched stay so."""
    return gates_taken_along(to, gates.overrides, by_hand, gates.bugs.settings)


@dataclass(frozen=True, slots=True)
class Present:
    """A cluster as it is: its oldest API server, with the gates that are set there, and its kubelets."""

    version: Version
    gates: Mapping[str, bool]
    runtime_config: Mapping[str, bool]
    kubelets: Kubelets


@dataclass(frozen=True, slots=True)
class Move:
    """A move of all servers and kubelets to a version, at once or `by_minor`, where kubelets that are ahead
    stay until the servers have come there. `gates` and `runtime_config` are set by hand."""

    target: Version
    by_minor: bool
    gates: Mapping[str, bool] | None = None
    runtime_config: Mapping[str, bool] | None = None


def steps_of(there: Present, move: Move) -> tuple[Settings, list[Settings], list[Kubelets]]:
    """Settings of the servers before a move and at each of its steps, and the kubelets before and at each.

    Raises ValueError for gates that cannot be set there, and where the servers are at the version already.
    """
    way = minors(there.version, move.target) if move.by_minor else [move.target]
    if not way:
        raise ValueError(f"the API servers are at {move.target} already")
    served = there.runtime_config if move.runtime_config is None else move.runtime_config
    settings = [Settings.taken_along(each, there.gates, served, move.gates) for each in way]
    if move.by_minor:
        kubelets = kubelets_on_way(there.kubelets, there.version, way, move.gates)
    else:
        moved = {node: _moved(gates, move.target, move.gates) for node, gates in there.kubelets.items()}
        kubelets = [there.kubelets, moved]
    return Settings.taken_along(there.version, there.gates, there.runtime_config), settings, kubelets


def audit_way(
    entries: Iterable[Entry],
    present: Settings,
    way: Sequence[Settings],
    kubelets: Sequence[Kubelets] = (),
    kept: Sequence[KeptNode] = (),
) -> list[StepFinding]:
    """Findings come by step and key.

    `kubelets` are those before the way and at each of its steps: nodes whose next one would not start are
    reported. Of nodes in `kept` the files are read; those of other nodes are derived from their pods.
    """
    stored = {entry.key: entry for entry in objects(entries)}
    nodes = {node.config.name: node for node in kept if kubelets and node.config.name in kubelets[0]}
    before, found = StorageServer(present, stored.values()), list[StepFinding]()
    reported: _Reported = set()
    for number, settings in enumerate(way):
        server = StorageServer(settings, stored.values())
        steps = [*_step(stored, before, server)]
        if kubelets:
            older, newer = kubelets[number : number + 2]
            found += _nodes(stored, nodes, before, server, older, newer, later=number > 0)
        found += [
            replace(step, found=new) for step in steps if (new := _news(step.found, reported)) is not None
        ]
        before = server
    return found


_Reported = set[tuple[Key, str, tuple[str, ...]]]  # reported of an object: details, or a field's path


def _news(found: AuditFinding, reported: _Reported) -> AuditFinding | None:
    """Leaves out the parts of a finding that were reported at an earlier step; None if nothing is left. Adds
    the rest to `reported`.

    A field that one release does not know is unknown to those behind it, too, and a resource that a release
    does not serve is reported once, though each release has its own message.
    """
    if not found.fields:
        place = (found.key, found.what, () if found.what == audit.UNSERVED else found.details)
        is_new = place not in reported
        reported.add(place)
        return found if is_new else None
    places = [(found.key, found.what, (change.path,)) for change in found.fields]
    new = [at for at, place in enumerate(places) if place not in reported]
    reported.update(places)
    if not new:
        return None
    details = tuple(found.details[at] for at in new)
    return replace(found, details=details, fields=tuple(found.fields[at] for at in new))


def _nodes(
    stored: dict[Key, Entry],
    nodes: MutableMapping[str, KeptNode],
    before: StorageServer,
    server: StorageServer,
    older: Kubelets,
    newer: Kubelets,
    *,
    later: bool,
) -> Iterator[StepFinding]:
    """Effects of one step on nodes; `stored` and `nodes` become what is left once they are drained.

    At a `later` step kubelets have files that were not there to begin with, which follow from their pods.
    """
    for name, node in sorted(nodes.items()):
        entry = stored.get(Key("nodes", "", name))
        findings, nodes[name] = read_by(node, entry.revision if entry else 0, older[name], newer[name])
        drained = any(each.what == UNDRAINED for each in findings)
        for pod in pods_on(stored.values(), before, name) if drained else ():
            stored.pop(pod, None)
        for each in findings:
            do = DRAIN if each.what == UNDRAINED else NOTHING
            yield StepFinding(server.version, each, do, older[name].version)
    for each, pods in undrained([*stored.values()], before, older, newer):
        of = nodes.get(each.key.name)
        if of is not None and (not later or each.stored in of.found):
            continue  # it has been read
        yield StepFinding(server.version, each, DRAIN, older[each.key.name].version)
        for pod in pods:
            stored.pop(pod, None)


def _step(stored: dict[Key, Entry], before: StorageServer, server: StorageServer) -> Iterator[StepFinding]:
    """The advice of the findings is taken to be followed: `stored` changes accordingly."""
    waiting = deque(audit.findings(stored.values(), server))
    while waiting:
        found = waiting.popleft()
        step = StepFinding(server.version, found, NOTHING, before.version)
        entry = stored[found.key]
        obj = known_object(entry)
        custom = obj is not None and is_custom(obj)
        match found.what:
            case audit.UNREADABLE if custom:
                yield replace(step, do=DEFINE)
            case audit.UNSERVED if custom:
                yield step
            case audit.UNREADABLE:
                rewritten = _rewritten(entry, before, server)
                if rewritten is None:
                    del stored[found.key]
                else:
                    stored[found.key] = rewritten
                    waiting.extendleft(reversed([*audit.findings([rewritten], server)]))
                yield replace(step, do=MIGRATE if rewritten else DELETE)
            case audit.UNSERVED:
                kept = server.keeps(entry)
                if not kept:
                    del stored[found.key]
                yield replace(step, do=SERVE if kept else DELETE)
            case audit.WEBHOOK:
                yield replace(step, do=MIGRATE)
            case audit.REFUSED:
                if _refused(before, entry) != found.details:  # else it is nothing that the step brings
                    yield replace(step, do=CHANGE)
            case _:
                yield step


def _refused(server: StorageServer, entry: Entry) -> tuple[str, ...]:
    """Messages are missing if the server cannot read the object."""
    try:
        return tuple(server.refusals(entry))
    except UnreadableError:
        return ()


def _rewritten(entry: Entry, before: StorageServer, server: StorageServer) -> Entry | None:
    """The server before the step writes the entry; None if that does not help."""
    try:
        rewritten = before.rewritten(entry)
        server.read(rewritten)
    except UnreadableError:
        return None
    return rewritten
