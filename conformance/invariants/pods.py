"""Judges running pods: I06 running-undisturbed.

The times of containers are compared with the times in which drivers had their claims prepared, by the records
of both.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from kubeskew.apimachinery.claim_users import reserved_for
from kubeskew.apimachinery.clock import micro_timestamp, parse_timestamp, timestamp
from kubeskew.apimachinery.objects import ObjectView, object_key
from kubeskew.apimachinery.pod_resources import is_terminal
from kubeskew.conformance.evidence.aspects import results
from kubeskew.conformance.evidence.log import KUBELET, ComponentChange, uid_of
from kubeskew.conformance.evidence.nodes import ContainerEvent, DriverCall, NodeRecords
from kubeskew.conformance.invariants.cluster import Change, Cluster, condition, controller, is_deleting, named
from kubeskew.conformance.invariants.devices import CLAIMS, PodLives
from kubeskew.conformance.invariants.invariant import USUAL, Evidence, Tolerance
from kubeskew.conformance.invariants.placement import UNFIT

_NEVER = "9999"  # after every time
_WORKLOADS = {"ReplicaSet": "replicasets.apps", "StatefulSet": "statefulsets.apps"}
# The reasons of events about pods that a kubelet does not admit (kubernetes/pkg/kubelet/lifecycle, 1.36).
_REFUSALS = (
    *UNFIT,
    "AppArmor",
    "EmptyPodSharedPoolError",
    "InitContainerRestartPolicyForbidden",
    "PodFeatureUnsupported",
    "PodLevelResourcesNotSupported",
    "PodOSNotSupported",
    "PodOSSelectorNodeLabelDoesNotMatch",
    "SupplementalGroupsPolicyNotSupported",
    "SysctlForbidden",
    "TaintToleration",
)
_PROBES = ("livenessProbe", "startupProbe", "lifecycle")


@dataclass(frozen=True, slots=True)
class _Use:
    claim: str  # namespace and name
    uid: str
    driver: str


class PreparedWhileUsed:
    """Finds containers that ran while a claim of their pod was not prepared on their node.

    Claims of a pod are those that were reserved for it. Drivers that have recorded nothing on a node, or need
    no call for a claim, are not judged; nor are times that are closer than the clocks of drivers and kubelets
    may differ.
    """

    def __init__(self, clock_skew: timedelta) -> None:
        self._skew = clock_skew
        self._uses: defaultdict[str, dict[_Use, None]] = defaultdict(dict)  # by pod's uid

    def see(self, claim: ObjectView) -> None:
        namespace, name = object_key(claim)
        for consumer in reserved_for(claim):
            for result in results(claim):
                use = _Use(f"{namespace}/{name}", uid_of(claim), str(result.get("driver")))
                self._uses[str(consumer.get("uid"))][use] = None

    def disturbances(self, records: NodeRecords, names: Mapping[str, str]) -> Iterator[str]:
        """Each claim of a container is reported once; `names` are pods' by uid."""
        calls: defaultdict[tuple[str, str, str], list[DriverCall]] = defaultdict(list)
        for call in records.calls:
            if not call.error:
                calls[call.node, call.driver, f"{call.namespace}/{call.name}"].append(call)
        ends = {event.id: event.time for event in records.containers if event.what != "started"}
        for event in records.containers:
            if event.what != "started":
                continue
            for use in self._uses.get(event.pod_uid) or ():
                named_calls = calls[event.node, use.driver, use.claim]
                if wrong := self._wrong(use, named_calls, event.time, ends.get(event.id, "")):
                    place = f"container {event.container} of {names.get(event.pod_uid, event.pod_uid)}"
                    yield f"{place}, on node {event.node} since {event.time}, {wrong}"

    def _wrong(self, use: _Use, calls: list[DriverCall], begin: str, end: str) -> str:
        """The calls are those for claims of this name; the text is empty if the claim may have been prepared
        all the time."""
        mine, claim = [call for call in calls if call.uid == use.uid], f"ResourceClaim {use.claim}"
        early, late = self._moved(begin, -1), self._moved(begin, 1)  # the bounds of when it began
        before = [call for call in mine if call.time <= late]
        if calls and calls[0].time <= early and not before:
            return f"was started when driver {use.driver} had prepared a former {claim} only"
        if before and before[-1].unprepares and before[-1].time <= early:
            return f"was started when driver {use.driver} had unprepared {claim}, at {before[-1].time}"
        last = self._moved(end, -1) if end else _NEVER
        lost = next((call.time for call in mine if call.unprepares and late < call.time < last), "")
        return lost and f"ran when driver {use.driver} unprepared {claim}, at {lost}"

    def _moved(self, time: str, direction: int) -> str:
        """The clock of another machine may have shown this time."""
        if not self._skew:
            return time
        return micro_timestamp(parse_timestamp(time) + direction * self._skew)


@dataclass(slots=True)
class _Life:
    """Facts of a pod that was seen; times are RFC 3339."""

    name: str
    spec: Mapping[str, object]
    owner_generation: object = None
    may_stop_since: str = ""  # deleted, finished or changed from then on
    deadline: str = ""  # its kubelet stops it then, and reports it only when its containers have ended
    is_reported: bool = False  # its kubelet failed it while it ran; then its containers stop
    refused_at: str = ""  # by a kubelet that started then; a later one may start its containers again
    ended: int = 0  # the revision at which it was no longer running, but had ended
    probed: set[str] = field(default_factory=set)


class RunningUndisturbed:
    """I06: no running pod is restarted, replaced or failed unless somebody asked for it.

    Asked for it have: a deletion or an eviction by somebody, a change of the pod or of the workload that owns
    it, the loss of its node, a probe, or the container itself by its exit.
    """

    code = "I06"
    name = "running-undisturbed"

    def __init__(self, tolerance: Tolerance = USUAL) -> None:
        self._lives: dict[str, _Life] = {}
        self._skew = tolerance.clock_skew
        self._prepared = PreparedWhileUsed(tolerance.clock_skew)
        self._pods = PodLives()

    def see(self, change: Change, cluster: Cluster) -> Iterator[str]:
        write, before = change.write, change.before
        self._pods.see(change)
        if write.resource == CLAIMS:
            self._prepared.see(write.value)
            yield from _taken_off(change, cluster, self._pods)
        if write.resource == "events":
            yield from self._refused(change, cluster)
        if write.resource != "pods":
            return
        pod = write.value
        life = self._lives.get(uid_of(pod))
        if life is None:
            life = self._lives[uid_of(pod)] = _life(pod, cluster)
        spec = pod.get("spec") or {}
        if not life.may_stop_since and (
            change.now is None or is_deleting(pod) or is_terminal(pod) or _meant(spec) != life.spec
        ):
            life.may_stop_since = write.time
        life.deadline = _deadline(pod) or life.deadline
        if before is None:
            return
        if is_deleting(pod) and not is_deleting(before):
            yield from self._replaced(change, before, life, cluster)
        if _running(before) and is_terminal(pod):
            life.ended = write.revision
        if is_terminal(before) and _phase(pod) != _phase(before):
            yield f"{change.text} had ended as {_phase(before)}, and is {_phase(pod)}"
        failed = _running(before) and _failed_by_kubelet(pod) and not is_deleting(before)
        if failed and not life.is_reported:
            status = pod.get("status") or {}
            why = f"{status['reason']}: {status.get('message')}"
            life.is_reported = True
            yield f"{change.text} ran and was failed by its kubelet: {why}"

    def _refused(self, change: Change, cluster: Cluster) -> Iterator[str]:
        """Reports a running pod that a kubelet which starts does not admit again. Its containers end then,
        and the pod's phase is theirs."""
        event = change.write.value
        about, reason = event.get("involvedObject") or {}, str(event.get("reason"))
        pod = cluster.get("pods", change.write.namespace, str(about.get("name")))
        if change.now is None or pod is None or uid_of(pod) != about.get("uid"):
            return
        life = self._lives.get(uid_of(pod))
        by_kubelet = (event.get("source") or {}).get("component") == "kubelet"
        if life is None or life.is_reported or not (by_kubelet and reason.startswith(_REFUSALS)):
            return
        if _ran_at_start(pod, life, cluster) and not is_deleting(pod):
            start = _start_of_kubelet(pod, cluster)
            life.is_reported, life.refused_at = True, change.write.time if start is None else start.time
            write = f"written by {change.write.by} at revision {change.write.revision}"
            why = f"{reason}: {event.get('message')}"
            yield f"{named(pod)} ({write}) ran and was refused by its kubelet: {why}"

    def _replaced(self, change: Change, before: ObjectView, life: _Life, cluster: Cluster) -> Iterator[str]:
        """Reports a running pod that its workload deletes without a change of the workload."""
        if not change.write.by.startswith("kube-controller-manager") or not _running(before):
            return
        if condition(before, "DisruptionTarget") or condition(change.write.value, "DisruptionTarget"):
            return
        owner = _owner(before, cluster)
        if (
            owner is None
            or is_deleting(owner)
            or life.owner_generation != owner["metadata"].get("generation")
        ):
            return
        if change.write.user.rpartition(":")[2] not in {"replicaset-controller", "statefulset-controller"}:
            return
        node = cluster.get("nodes", "", (before.get("spec") or {}).get("nodeName") or "")
        wanted = int((owner.get("spec") or {}).get("replicas") or 0)
        if node is not None and _siblings(owner, cluster) + 1 <= wanted:
            yield f"{change.text} ran and is deleted, although its {named(owner)} was not changed"

    def at_end(self, cluster: Cluster, evidence: Evidence, *, at_rest: bool) -> Iterator[str]:
        """Reports containers that a kubelet stopped without a request, and those that ran without a claim of
        theirs.

        The ends of containers of a pod that it has failed or refused are not reported again.
        """
        stops = [event for event in evidence.records.containers if event.what == "stopped"]
        last = {(event.pod_uid, event.container): event for event in evidence.records.containers}
        refused: set[tuple[str, str]] = set()  # pods and containers whose stop by a refusal was seen
        for event in stops:
            life, container = self._lives.get(event.pod_uid), (event.pod_uid, event.container)
            if life is None or event.container in life.probed:
                continue
            if life.is_reported and event is last[container]:
                continue
            if (
                life.refused_at
                and container not in refused
                and not self._is_before(event.time, life.refused_at)
            ):
                refused.add(container)
                continue
            reasons = filter(None, (life.may_stop_since, life.deadline))
            if all(self._is_before(event.time, since) for since in reasons):
                yield _stopped(life, event)
        pods = {uid: life.name for uid, life in self._lives.items()}
        yield from self._prepared.disturbances(evidence.records, pods)

    def _is_before(self, time: str, since: str) -> bool:
        """The clocks of a node and of an API server may differ."""
        return parse_timestamp(time) + self._skew < parse_timestamp(since)


def _ran_at_start(pod: ObjectView, life: _Life, cluster: Cluster) -> bool:
    """The event of a refusal may come after the end of what its kubelet found running."""
    start = _start_of_kubelet(pod, cluster)
    return _running(pod) or (start is not None and life.ended > start.revision)


def _start_of_kubelet(pod: ObjectView, cluster: Cluster) -> ComponentChange | None:
    return cluster.components.get(KUBELET + str((pod.get("spec") or {}).get("nodeName")))


def _stopped(life: _Life, event: ContainerEvent) -> str:
    what = f"container {event.container} of {life.name} was stopped on node {event.node} at {event.time}"
    return f"{what}; nothing asked for it"


def _life(pod: ObjectView, cluster: Cluster) -> _Life:
    owner = _owner(pod, cluster)
    spec = pod.get("spec") or {}
    containers = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
    return _Life(
        named(pod),
        _meant(spec),
        None if owner is None else owner["metadata"].get("generation"),
        probed={each["name"] for each in containers if any(each.get(probe) for probe in _PROBES)},
    )


def _meant(spec: Mapping[str, object]) -> Mapping[str, object]:
    """Containers are started again when one of these fields changes."""
    containers = spec.get("containers")
    listed = containers if isinstance(containers, list) else []
    return {each["name"]: (each.get("image"), each.get("resources")) for each in listed}


def _deadline(pod: ObjectView) -> str:
    """The pod has then been active for as long as it may; it is empty if there is no limit."""
    seconds = (pod.get("spec") or {}).get("activeDeadlineSeconds")
    started = (pod.get("status") or {}).get("startTime")
    return timestamp(parse_timestamp(started) + timedelta(seconds=seconds)) if seconds and started else ""


def _owner(pod: ObjectView, cluster: Cluster) -> ObjectView | None:
    reference = controller(pod)
    resource = _WORKLOADS.get(str(reference.get("kind")))
    if resource is None:
        return None
    found = cluster.get(resource, pod["metadata"].get("namespace") or "", str(reference.get("name")))
    return found if found is not None and uid_of(found) == reference.get("uid") else None


def _siblings(owner: ObjectView, cluster: Cluster) -> int:
    uid = uid_of(owner)
    pods = cluster.all("pods")
    return sum(
        controller(pod).get("uid") == uid and not is_deleting(pod) and not is_terminal(pod) for pod in pods
    )


def _running(pod: ObjectView) -> bool:
    return _phase(pod) == "Running"


def _phase(pod: ObjectView) -> str:
    return str((pod.get("status") or {}).get("phase"))


def _taken_off(change: Change, cluster: Cluster, pods: PodLives) -> Iterator[str]:
    """Reports pods that lose a claim which a component takes from them while they have a node."""
    if change.now is None or not change.write.by.startswith("kube-"):
        return
    left = {consumer.get("uid") for consumer in reserved_for(change.now)}
    former = {consumer.get("uid") for consumer in reserved_for(change.before or {})}
    others = f", but for {len(left - former)} others" if left - former else ""
    for consumer in reserved_for(change.before or {}):
        pod = cluster.get("pods", change.write.namespace, str(consumer.get("name")))
        if consumer.get("uid") in left or pod is None or uid_of(pod) != consumer.get("uid"):
            continue
        if (pod.get("spec") or {}).get("nodeName") and not is_terminal(pod):
            more = f"{others}{pods.former(pod, change.write.time)}"
            yield f"{change.text} is not reserved any more for {named(pod)}, which uses it{more}"


def _failed_by_kubelet(pod: ObjectView) -> bool:
    """A pod fails for a reason of its own; containers that fail give none."""
    status = pod.get("status") or {}
    return (
        status.get("phase") == "Failed"
        and bool(status.get("reason"))
        and status["reason"] not in {"Evicted", "DeadlineExceeded", "NodeLost", "Terminated", "NodeShutdown"}
    )
