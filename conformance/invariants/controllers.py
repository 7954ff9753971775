"""Judges controllers: I07 replica-bounds, I08 counted-once, I15 controllers-settle and I24 own-namespace."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

import orjson

from kubeskew.apimachinery.clock import parse_timestamp
from kubeskew.apimachinery.conditions import is_condition_true
from kubeskew.apimachinery.objects import Key, ObjectView, object_key
from kubeskew.apimachinery.pod_resources import is_terminal
from kubeskew.conformance.evidence.log import Write, uid_of
from kubeskew.conformance.invariants.cluster import Change, Cluster, controller, is_deleting, named
from kubeskew.conformance.invariants.devices import CLAIMS
from kubeskew.conformance.invariants.invariant import Evidence, SafetyInvariant

REPLICA_SETS = "replicasets.apps"
STATEFUL_SETS = "statefulsets.apps"
DAEMON_SETS = "daemonsets.apps"
JOBS = "jobs.batch"
JOB_TRACKING = "batch.kubernetes.io/job-tracking"
_ENDS = ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")  # conditions of Jobs
# Renewed for ever.
_HEARTBEATS = frozenset({"leases.coordination.k8s.io", "events", "events.events.k8s.io"})
_COMPONENTS = ("kube-", "kubelet/", "kubelet ")
# So often an object may come back to a state that it had, or be written without anything from outside.
_RETURNS = 5
_WRITES = 200
_MANAGER = "kube-controller-manager"
_ACCOUNTS = "system:serviceaccount:kube-system:"
# For it an owner in another namespace is absent; I16 judges what it deletes.
_COLLECTOR = "generic-garbage-collector"
# The accounts of controllers that delete what their owners control, and nothing else.
_OWNERS = frozenset(
    {
        "cronjob-controller",
        "daemon-set-controller",
        "deployment-controller",
        "job-controller",
        "replicaset-controller",
        "replication-controller",
        "resource-claim-controller",
        "statefulset-controller",
    }
)
_NEVER_OWN = frozenset({"events", "events.events.k8s.io", "leases.coordination.k8s.io"})


class ReplicaBounds:
    """I07: a workload has not more pods than it may, one per identity, and none once it is finished."""

    code = "I07"
    name = "replica-bounds"

    def __init__(self) -> None:
        # by uid, by generation: the replicas that were asked for
        self._wanted: defaultdict[str, dict[int, int]] = defaultdict(dict)

    def see(self, change: Change, cluster: Cluster) -> Iterator[str]:
        write = change.write
        if write.resource == REPLICA_SETS and change.now is not None:
            generation = int(write.value["metadata"].get("generation") or 0)
            self._wanted[uid_of(write.value)][generation] = _replicas(write.value)
        if write.resource != "pods" or write.verb != "create" or change.now is None:
            return
        owner = controller(change.now)
        namespace, name = write.namespace, str(owner.get("name"))
        match owner.get("kind"):
            case "ReplicaSet":
                yield from self._too_many(change, cluster.get(REPLICA_SETS, namespace, name), cluster)
            case "Job":
                yield from _for_finished(change, cluster.get(JOBS, namespace, name), cluster)
            case "DaemonSet":
                yield from _twice_on_node(change, cluster.get(DAEMON_SETS, namespace, name), cluster)

    def _too_many(self, change: Change, owner: ObjectView | None, cluster: Cluster) -> Iterator[str]:
        """A pod is too many beyond what was asked for since the generation that the controller has seen."""
        if owner is None or uid_of(owner) != controller(change.write.value).get("uid"):
            return
        seen = int((owner.get("status") or {}).get("observedGeneration") or 0)
        asked = [
            replicas for generation, replicas in self._wanted[uid_of(owner)].items() if generation >= seen
        ]
        pods, most = _active(owner, cluster), max([_replicas(owner), *asked])
        if len(pods) > most:
            now = change.write.time
            times = sorted(
                [pod["metadata"].get("creationTimestamp") or now for pod in pods], key=parse_timestamp
            )
            wanted = times[most - 1] if most else now
            since = f"the last that was wanted was made {_seconds(wanted, now)} s before"
            many = f"is pod {len(pods)} of {named(owner)}, which asks for {_replicas(owner)}"
            yield f"{change.text} {many}: {since}"

    def at_end(self, cluster: Cluster, evidence: Evidence, *, at_rest: bool) -> Iterator[str]:
        if not at_rest or not cluster.running("controller-manager"):
            return
        for owner in [*cluster.all(REPLICA_SETS), *cluster.all(STATEFUL_SETS)]:
            if is_deleting(owner) or is_condition_true(owner, "ReplicaFailure"):
                continue
            pods = _active(owner, cluster)
            if owner.get("kind") == "StatefulSet" and (
                _ordered_wait(owner, pods) or len(pods) == _replicas(owner)
            ):
                continue
            if len(pods) != _replicas(owner):
                yield f"{named(owner)} has {len(pods)} pods, and asks for {_replicas(owner)}"


def _replicas(owner: ObjectView) -> int:
    replicas = (owner.get("spec") or {}).get("replicas")
    return 1 if replicas is None else int(replicas)


def _seconds(earlier: str, later: str) -> int:
    return max(0, int((parse_timestamp(later) - parse_timestamp(earlier)).total_seconds()))


def _active(owner: ObjectView, cluster: Cluster) -> list[ObjectView]:
    """Active pods of an owner are in its namespace and name it with its UID."""
    uid, (namespace, name) = uid_of(owner), object_key(owner)
    return [
        pod
        for pod in cluster.all("pods")
        if controller(pod).get("uid") == uid
        and pod["metadata"].get("namespace") == namespace
        and (controller(pod).get("kind"), controller(pod).get("name")) == (owner.get("kind"), name)
        and not is_deleting(pod)
        and not is_terminal(pod)
    ]


def _ordered_wait(owner: ObjectView, pods: list[ObjectView]) -> bool:
    """An ordered set waits for a pod that is not ready, or for a volume claim."""
    parallel = (owner.get("spec") or {}).get("podManagementPolicy") == "Parallel"
    return not parallel and any(not is_condition_true(pod, "Ready") for pod in pods)


def _for_finished(change: Change, job: ObjectView | None, cluster: Cluster) -> Iterator[str]:
    if job is None or uid_of(job) != controller(change.write.value).get("uid"):
        return
    for kind in _ENDS:
        if is_condition_true(job, kind):
            yield f"{change.text} was made for {named(job)}, which is {kind} already"
            return
    parallelism = (job.get("spec") or {}).get("parallelism")
    pods = _active(job, cluster)
    generation, seen = job["metadata"].get("generation"), (job.get("status") or {}).get("observedGeneration")
    if parallelism is not None and len(pods) > int(parallelism) and seen in {None, generation}:
        yield f"{change.text} is pod {len(pods)} of {named(job)} at once, which allows {parallelism}"


def _twice_on_node(change: Change, owner: ObjectView | None, cluster: Cluster) -> Iterator[str]:
    if owner is None:
        return
    update = ((owner.get("spec") or {}).get("updateStrategy") or {}).get("rollingUpdate") or {}
    if str(update.get("maxSurge") or "0").strip("%") != "0":
        return
    node = _daemon_node(change.write.value)
    same = [pod for pod in _active(owner, cluster) if _daemon_node(pod) == node]
    if node and len(same) > 1:
        yield f"{change.text} is pod {len(same)} of {named(owner)} for node {node}"


def _daemon_node(pod: ObjectView) -> str:
    spec = pod.get("spec") or {}
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    for term in affinity.get("nodeSelectorTerms") or []:
        for entry in term.get("matchFields") or []:
            if entry.get("key") == "metadata.name" and entry.get("values"):
                return str(entry["values"][0])
    return ""


class CountedOnce:
    """I08: what a status counts is there, each once."""

    code = "I08"
    name = "counted-once"

    def __init__(self) -> None:
        self._succeeded: defaultdict[str, set[str]] = defaultdict(set)  # by job: pods
        self._pods: defaultdict[str, set[str]] = defaultdict(set)

    def see(self, change: Change, cluster: Cluster) -> Iterator[str]:
        value = change.write.value
        if change.write.resource == "pods":
            job = f"{change.write.namespace}/{controller(value).get('uid')}"
            self._pods[job].add(uid_of(value))
            if (value.get("status") or {}).get("phase") == "Succeeded":
                self._succeeded[job].add(uid_of(value))
            yield from _released_uncounted(change, cluster)
        if change.write.resource == CLAIMS and change.write.verb == "create":
            yield from _made_twice(change, cluster)
        if change.write.resource != JOBS or change.now is None:
            return
        status, uid = value.get("status") or {}, f"{change.write.namespace}/{uid_of(value)}"
        succeeded, failed = int(status.get("succeeded") or 0), int(status.get("failed") or 0)
        if succeeded > len(self._succeeded[uid]):
            yield f"{change.text} counts {succeeded} pods that succeeded, of {len(self._succeeded[uid])}"
        if succeeded + failed > len(self._pods[uid]):
            total = len(self._pods[uid])
            yield f"{change.text} counts {succeeded + failed} finished pods, of {total} that there were"

    def at_end(self, cluster: Cluster, evidence: Evidence, *, at_rest: bool) -> Iterator[str]:
        if not at_rest or not cluster.running("controller-manager"):
            return
        for owner in cluster.all(REPLICA_SETS):
            counted, pods = int((owner.get("status") or {}).get("replicas") or 0), _active(owner, cluster)
            if counted != len(pods) and not is_deleting(owner):
                yield f"{named(owner)} counts {counted} pods, and has {len(pods)}"
        for cron_job in cluster.all("cronjobs.batch"):
            for reference in (cron_job.get("status") or {}).get("active") or []:
                namespace = cron_job["metadata"]["namespace"]
                job = cluster.get(JOBS, namespace, str(reference.get("name")))
                if job is None or uid_of(job) != reference.get("uid"):
                    yield f"{named(cron_job)} counts Job {reference.get('name')} as active, which is gone"
        for job in cluster.all(JOBS):
            owner_of_job = _cron_job_of(job, cluster)
            if owner_of_job is not None and not _is_counted(job, owner_of_job):
                yield f"{named(owner_of_job)} does not count {named(job)}, which it made and which is active"


def _released_uncounted(change: Change, cluster: Cluster) -> Iterator[str]:
    """Reports a pod that succeeded and loses the finalizer of its Job, whose status does not have it yet.

    If the controller dies then, the pod is never counted. A Job that ends releases pods without counting
    them. Of failed pods policies decide which count, and which pod of an index does; these are not judged.
    """
    if change.before is None or not _is_tracked(change.before) or _is_tracked(change.write.value):
        return
    pod = change.write.value
    reference = controller(pod)
    job = cluster.get(JOBS, change.write.namespace, str(reference.get("name")))
    succeeded = (pod.get("status") or {}).get("phase") == "Succeeded"
    if job is None or uid_of(job) != reference.get("uid") or not succeeded or is_deleting(job):
        return
    if any(is_condition_true(job, kind) for kind in _ENDS):
        return
    indexed = (job.get("spec") or {}).get("completionMode") == "Indexed"
    uncounted = (job.get("status") or {}).get("uncountedTerminatedPods") or {}
    if not indexed and uid_of(pod) not in (uncounted.get("succeeded") or []):
        yield f"{change.text} is released by {named(job)}, whose status does not have it as uncounted"


def _is_tracked(pod: ObjectView) -> bool:
    return JOB_TRACKING in (pod["metadata"].get("finalizers") or [])


def _cron_job_of(job: ObjectView, cluster: Cluster) -> ObjectView | None:
    owner = controller(job)
    found = cluster.get("cronjobs.batch", job["metadata"]["namespace"], str(owner.get("name")))
    return found if found is not None and uid_of(found) == owner.get("uid") else None


def _is_counted(job: ObjectView, cron_job: ObjectView) -> bool:
    """A job that has ended or is being deleted need not be among the active ones of its cron job."""
    ended = any(is_condition_true(job, kind) for kind in ("Complete", "Failed"))
    active = (cron_job.get("status") or {}).get("active") or []
    return ended or is_deleting(job) or uid_of(job) in [reference.get("uid") for reference in active]


def _made_twice(change: Change, cluster: Cluster) -> Iterator[str]:
    """Reports the second claim that is made from one template for one pod."""
    claim = change.write.value
    for other in cluster.all(CLAIMS):
        same = controller(other).get("uid") == controller(claim).get("uid") and _entry(other) == _entry(claim)
        if uid_of(other) != uid_of(claim) and controller(claim) and same and not is_deleting(other):
            yield f"{change.text} is made for the same claim of a pod as {named(other)}"


def _entry(claim: ObjectView) -> object:
    """The annotation has the name that a pod uses for its claim; older claims are named after it."""
    metadata = claim["metadata"]
    return (metadata.get("annotations") or {}).get("resource.kubernetes.io/pod-claim-name", metadata["name"])


class ControllersSettle:
    """I15: with no new input from outside every controller reaches a fixed point.

    An object that tallies others (a quota, a Deployment that is rolled) comes back to a state as these come
    and go: only a state that comes back while nothing is made or deleted counts.
    """

    code = "I15"
    name = "controllers-settle"

    def __init__(self) -> None:
        self._writes: defaultdict[tuple[str, Key], int] = defaultdict(int)
        self._states: defaultdict[tuple[str, Key], dict[bytes, int]] = defaultdict(lambda: defaultdict(int))
        # What was written since an object's states were forgotten, until that may matter: states are dear.
        self._values: defaultdict[tuple[str, Key], list[Any]] = defaultdict(list)
        self._changes = 0  # objects that were made or deleted
        self._seen_at: dict[tuple[str, Key], int] = {}  # of these, when an object was last written

    def see(self, change: Change, cluster: Cluster) -> Iterator[str]:
        write = change.write
        if is_heartbeat(write):
            return
        key = (write.resource, (write.namespace, write.name))
        if not write.by.startswith(_COMPONENTS):
            self._writes.clear()
            self._states.clear()
            self._values.clear()
            return
        self._changes += write.verb != "update"
        self._writes[key] += 1
        if self._seen_at.get(key) != self._changes:
            self._seen_at[key] = self._changes
            self._states.pop(key, None)
            self._values.pop(key, None)
        self._values[key].append(write.value)
        if self._has_come_back(key):
            yield f"{change.text} has come back to the same state {_RETURNS} times without input"
        elif self._writes[key] == _WRITES:
            yield f"{change.text} was written {_WRITES} times, with no input from outside"

    def _has_come_back(self, key: tuple[str, Key]) -> bool:
        """States count only if others came between them."""
        if key not in self._states and len(self._values[key]) <= _RETURNS + 1:
            return False  # with that few writes no state can have come back as often
        states, state = self._states[key], b""
        for value in self._values.pop(key):
            state = sha256(orjson.dumps(_settled(value), option=orjson.OPT_SORT_KEYS)).digest()
            states[state] += 1
        return states[state] == _RETURNS + 1 and len(states) > 1

    def at_end(self, cluster: Cluster, evidence: Evidence, *, at_rest: bool) -> Iterator[str]:
        yield from ()


def is_heartbeat(write: Write) -> bool:
    """Heartbeats go on for ever: leases, events, the status of nodes."""
    by_kubelet = write.resource == "nodes" and write.by.startswith("kubelet")
    return by_kubelet or write.resource in _HEARTBEATS


def _settled(obj: Any) -> Any:
    """Leaves out fields that change with every write: times, versions, managed fields."""
    if isinstance(obj, Mapping):
        return {
            key: _settled(value)
            for key, value in obj.items()
            if key not in {"managedFields", "resourceVersion", "generation", "observedGeneration"}
            and not key.endswith(("Time", "Timestamp"))
        }
    return [_settled(each) for each in obj] if isinstance(obj, list) else obj


class OwnNamespace(SafetyInvariant):
    """I24: no controller adopts, disowns or deletes an object for an owner in another namespace.

    Owners without a namespace are nobody's neighbours. An object that was disowned meanwhile may still be
    deleted: a controller's cache may be behind.
    """

    code = "I24"
    name = "own-namespace"

    def __init__(self) -> None:
        self._places: dict[str, tuple[str, str]] = {}  # by uid, of objects in namespaces: namespace, and text
        self._controllers: dict[str, set[str]] = {}  # by uid: the uids of all controllers that it had

    def see(self, change: Change, cluster: Cluster) -> Iterator[str]:
        write = change.write
        if not write.namespace or write.resource in _NEVER_OWN:
            return
        uid, before = uid_of(write.value), change.before
        if before is None:
            self._places[uid] = write.namespace, f"{write.value.get('kind')} {write.namespace}/{write.name}"
        references, former = _owners(write.value), _owners(before or {"metadata": {}})
        if references and (before is None or references != former):
            self._controllers.setdefault(uid, set()).add(str(controller(write.value).get("uid") or ""))
        if before is None or not write.by.startswith(_MANAGER):
            return
        account = write.user.removeprefix(_ACCOUNTS)
        if account != _COLLECTOR and change.now is not None and references != former:
            yield from self._foreign(change, references.keys() - former.keys(), "was adopted for")
            yield from self._foreign(change, former.keys() - references.keys(), "was disowned for")
        gone = change.now is None or is_deleting(change.now)
        if account in _OWNERS and gone and not is_deleting(before):
            yield from self._deleted(change, uid, account)

    def _foreign(self, change: Change, uids: set[str], what: str) -> Iterator[str]:
        for uid in sorted(uids):
            namespace, text = self._places.get(uid, (change.write.namespace, ""))
            if namespace != change.write.namespace:
                yield f"{change.text} {what} {text}, which is in another namespace"

    def _deleted(self, change: Change, uid: str, account: str) -> Iterator[str]:
        """Reports an object that was deleted, and none of whose controllers, ever, was in its namespace."""
        had = self._controllers.get(uid, set()) - {""}
        places = [self._places[each] for each in sorted(had) if each in self._places]
        if len(places) < len(had) or any(namespace == change.write.namespace for namespace, _ in places):
            return
        whose = (
            f"for {places[0][1]}, which is in another namespace" if places else "though nobody controlled it"
        )
        yield f"{change.text} was deleted by the {account} {whose}"


def _owners(obj: Mapping[str, object]) -> dict[str, str]:
    metadata = obj["metadata"]
    references = metadata.get("ownerReferences") if isinstance(metadata, Mapping) else None
    return {str(each.get("uid")): str(each.get("name")) for each in references or ()}
