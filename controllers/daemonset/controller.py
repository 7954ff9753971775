"""The daemon set controller: decides on which nodes a daemon set's pods belong, creates them, and chooses the
pods to delete and the nodes that get a new one.

Sources: k8s.io/kubernetes/pkg/controller/daemon (NodeShouldRunDaemonPod) and daemon/util, 1.36;
k8s.io/kubernetes/pkg/controller/daemon/{daemon_controller,update}.go, 1.36;
k8s.io/kubernetes/pkg/controller/daemon, 1.36.
"""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from kubeskew.apimachinery.client.refs import CONTROLLER_REVISIONS, DAEMON_SETS, NODES
from kubeskew.apimachinery.golang.raw_extensions import RawObject
from kubeskew.apimachinery.objects import Object, controller_of
from kubeskew.apimachinery.pod_resources import is_terminal
from kubeskew.apimachinery.selectors.labels import LabelSelector
from kubeskew.apimachinery.selectors.nodes import affinity_matches, is_tolerated
from kubeskew.controllers.daemonset.features import DaemonSetFeatures
from kubeskew.controllers.framework import history, pods
from kubeskew.controllers.framework.base import ControllerContext, Key, key_of
from kubeskew.controllers.framework.history import REVISION_LABEL, Revisions, template_hash
from kubeskew.controllers.framework.pod_control import is_namespace_terminating, scaled, slow_start
from kubeskew.controllers.framework.pod_controller import PodOwnerController

GENERATION_LABEL = "pod-template-generation"
GENERATION_ANNOTATION = "deprecated.daemonset.template.generation"
_NODE = "node.kubernetes.io/"
# Tolerations of every daemon's pod: (key, effect).
_TOLERATED = (
    (_NODE + "not-ready", "NoExecute"),
    (_NODE + "unreachable", "NoExecute"),
    (_NODE + "disk-pressure", "NoSchedule"),
    (_NODE + "memory-pressure", "NoSchedule"),
    (_NODE + "pid-pressure", "NoSchedule"),
    (_NODE + "unschedulable", "NoSchedule"),
)
_TOLERATED_ON_HOST_NETWORK = (_NODE + "network-unavailable", "NoSchedule")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
BURST_REPLICAS = 250
_DEFAULT_HISTORY = 10
_FIRST_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS = 1.0, 900.0
_ALL_PODS = "This daemon set is selecting all pods. A non-empty selector is required."
OnNodes = dict[str, list[Object]]


def template_generation(daemon_set: Object) -> str:
    """The API server counts templates in an annotation; empty if it is absent or no number."""
    text = str((daemon_set["metadata"].get("annotations") or {}).get(GENERATION_ANNOTATION, ""))
    return text if text.removeprefix("-").isdigit() else ""


def _tolerations(spec: Object) -> list[Object]:
    found = list(spec.get("tolerations") or ())
    wanted = [*_TOLERATED, *([_TOLERATED_ON_HOST_NETWORK] if spec.get("hostNetwork") else [])]
    for key, effect in wanted:
        toleration = {"key": key, "operator": "Exists", "effect": effect}
        if toleration not in found:
            found.append(toleration)
    return found


def pod_template(daemon_set: Object, text: str) -> Object:
    """`text` is the hash of the present revision."""
    template = copy.deepcopy(daemon_set["spec"].get("template") or {})
    labels = template.setdefault("metadata", {}).get("labels") or {}
    template["metadata"]["labels"] = labels
    if generation := template_generation(daemon_set):
        labels[GENERATION_LABEL] = generation
    if text:
        labels[REVISION_LABEL] = text
    template.setdefault("spec", {})["tolerations"] = _tolerations(template["spec"])
    return template


def pinned_to(template: Object, node_name: str) -> Object:
    """Node affinity restricts the template to one node, so that the default scheduler places it there."""
    spec = dict(template["spec"])
    affinity = dict(spec.get("affinity") or {})
    node_affinity = dict(affinity.get("nodeAffinity") or {})
    by_name = {"key": "metadata.name", "operator": "In", "values": [node_name]}
    node_affinity[_REQUIRED] = {"nodeSelectorTerms": [{"matchFields": [by_name]}]}
    affinity["nodeAffinity"] = node_affinity
    return {**template, "spec": {**spec, "affinity": affinity}}


def target_node(pod: Object) -> str:
    """Pods that are neither bound nor pinned give an empty text."""
    if name := pod["spec"].get("nodeName"):
        return str(name)
    required = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED) or {}
    for term in required.get("nodeSelectorTerms") or ():
        for match in term.get("matchFields") or ():
            values = match.get("values") or []
            if match["key"] == "metadata.name" and match["operator"] == "In" and len(values) == 1:
                return str(values[0])
    return ""


def belongs(daemon_set: Object, node: Object) -> tuple[bool, bool]:
    """Taints may keep new pods away without evicting running ones: (should start, may go on)."""
    spec = (daemon_set["spec"].get("template") or {}).get("spec") or {}
    name = spec.get("nodeName")
    if (name and name != node["metadata"]["name"]) or not affinity_matches({"spec": spec}, node):
        return False, False
    tolerations = _tolerations(spec)
    refused = {
        taint.get("effect")
        for taint in node["spec"].get("taints") or ()
        if not is_tolerated(taint, tolerations)
    }
    if refused & {"NoSchedule", "NoExecute"}:
        return False, "NoExecute" not in refused
    return True, True


def is_updated(pod: Object, text: str, generation: str) -> bool:
    labels = pod["metadata"].get("labels") or {}
    if generation and labels.get(GENERATION_LABEL) == generation:
        return True
    return bool(text) and labels.get(REVISION_LABEL) == text


@dataclass(slots=True)
class Plan:
    nodes: list[str] = field(default_factory=list)
    pods: list[Object] = field(default_factory=list)


def by_age(found: Iterable[Object]) -> list[Object]:
    """Bound pods come first, then the oldest: the first are kept."""
    return sorted(
        found,
        key=lambda pod: (
            not pod["spec"].get("nodeName"),
            pod["metadata"].get("creationTimestamp") or "",
            pod["metadata"]["name"],
        ),
    )


def _rolling(daemon_set: Object) -> Object | None:
    strategy = daemon_set["spec"].get("updateStrategy") or {}
    if strategy.get("type") != "RollingUpdate":
        return None
    rolling: Object = strategy.get("rollingUpdate") or {}
    return rolling


def allows_surge(daemon_set: Object) -> bool:
    rolling = _rolling(daemon_set)
    return rolling is not None and scaled(rolling.get("maxSurge"), 100, round_up=True) > 0


def limits(daemon_set: Object, desired: int) -> tuple[int, int]:
    """The numbers are (max surge, max unavailable) of `desired` nodes; at least one of them is not 0."""
    rolling = _rolling(daemon_set) or {}
    surge = scaled(rolling.get("maxSurge"), desired, round_up=True)
    unavailable = scaled(rolling.get("maxUnavailable", 1), desired, round_up=True)
    if desired and not surge and not unavailable:
        unavailable = 1
    return surge, unavailable


class PodClassifier:
    def __init__(self, daemon_set: Object, text: str, now: datetime) -> None:
        self.daemon_set = daemon_set
        self._hash = text
        self._generation = template_generation(daemon_set)
        self._wait = daemon_set["spec"].get("minReadySeconds") or 0
        self._now = now

    def is_available(self, pod: Object) -> bool:
        return pods.available_in(pod, self._wait, self._now) == 0

    def is_updated(self, pod: Object) -> bool:
        return is_updated(pod, self._hash, self._generation)

    def pair(self, found: Sequence[Object]) -> tuple[Object | None, Object | None] | None:
        """A node has (new pod, old pod); None if there are more, which the next sync deletes."""
        new = old = None
        for pod in found:
            if pods.is_terminating(pod):
                continue
            if self.is_updated(pod):
                if new is not None:
                    return None
                new = pod
            else:
                if old is not None:
                    return None
                old = pod
        return new, old

    # -- several pods on one node

    def excess(self, running: Sequence[Object]) -> list[Object]:
        if len(running) <= 1:
            return []
        if not allows_surge(self.daemon_set):
            return by_age(running)[1:]
        kept: dict[bool, Object] = {}
        gone = []
        for pod in by_age(running):
            is_new = (pod["metadata"].get("labels") or {}).get(REVISION_LABEL) == self._hash
            if is_new in kept:
                gone.append(pod)
            kept.setdefault(is_new, pod)
        if len(kept) == 2 and (not pods.is_ready(kept[False]) or self.is_available(kept[True])):
            gone.append(kept[False])
        return gone

    # -- rolling update

    def replace(
        self,
        on_nodes: Mapping[str, Sequence[Object]],
        max_unavailable: int,
        *,
        ignores_old_unavailable: bool = False,
    ) -> Plan:
        """Plans to delete old pods, unavailable ones first. At most `max_unavailable` nodes are then without
        an available pod; with `ignores_old_unavailable`, old pods that are unavailable already do not count.
        """
        unavailable, broken, candidates = 0, [], []
        for found in on_nodes.values():
            pair = self.pair(found)
            if pair is None or (pair[0] is None) == (pair[1] is None):
                unavailable += 1
                continue
            new, old = pair
            if new is not None:
                unavailable += not self.is_available(new)
            elif old is not None and not self.is_available(old):
                unavailable += not ignores_old_unavailable
                broken.append(old)
            elif old is not None:
                candidates.append(old)
        return Plan(pods=[*broken, *candidates[: max(0, max_unavailable - unavailable)]])

    def surge(
        self,
        on_nodes: Mapping[str, Sequence[Object]],
        max_surge: int,
        starts: Callable[[str], bool],
        desired: int,
    ) -> Plan:
        """Plans a new pod next to the old one, which is deleted when the new one is available.

        `starts` says whether a node should have a pod. Where none should be, the old one is deleted only when
        enough of the `desired` others are available.
        """
        surging, available, plan = 0, 0, Plan()
        candidates: list[str] = []
        misplaced: list[Object] = []
        for node, found in on_nodes.items():
            pair = self.pair(found)
            if pair is None:
                surging += 1
                continue
            new, old = pair
            counted = old or new
            available += counted is not None and self.is_available(counted)
            if old is None:
                continue
            if new is None:
                self._take_over(plan, candidates, misplaced, node, old, starts=starts(node))
            elif self.is_available(new):
                plan.pods.append(old)
            else:
                surging += 1
        plan.pods += misplaced[: max(0, available - desired)]
        plan.nodes += candidates[: max(0, max_surge - surging)]
        return plan

    def _take_over(
        self,
        plan: Plan,
        candidates: list[str],
        misplaced: list[Object],
        node: str,
        old: Object,
        *,
        starts: bool,
    ) -> None:
        if self.is_available(old):
            if starts:
                candidates.append(node)
            else:
                misplaced.append(old)
        elif starts:
            plan.nodes.append(node)
        else:
            plan.pods.append(old)


class DaemonSetController(PodOwnerController):
    name = "daemonset-controller"
    component = "daemonset-controller"
    ref = DAEMON_SETS
    default_workers = 2

    def __init__(self, context: ControllerContext) -> None:
        features = DaemonSetFeatures.of(context.environment.gates)
        super().__init__(
            context, waits_for_own_writes=features.waits_for_own_writes, match=features.owner_match
        )
        self._writes_empty_times = features.writes_empty_times
        self._wakes_by_need = features.wakes_by_need
        self._ignores_old_unavailable = features.ignores_old_unavailable
        self._backoff: dict[tuple[str, str], tuple[float, float]] = {}  # (until, seconds) by uid and node
        self._nodes = context.informer(NODES)
        revisions = context.informer(CONTROLLER_REVISIONS)
        self._revisions = Revisions(self.client, revisions, self.ref)
        self._nodes.add_handler(self._node_added, self._node_updated)
        revisions.add_handler(self._revision_added, self._revision_updated, self._revision_deleted)

    def selector(self, obj: Object) -> LabelSelector:
        return LabelSelector.from_object(obj["spec"].get("selector"))

    # -- event handlers

    def object_deleted(self, old: Object) -> None:
        uid = old["metadata"]["uid"]
        self._backoff = {key: value for key, value in self._backoff.items() if key[0] != uid}
        super().object_deleted(old)

    def _revision_added(self, revision: Object) -> None:
        if revision["metadata"].get("deletionTimestamp"):
            self._revision_deleted(revision)
        elif controller_of(revision) is None:
            self.enqueue_matching(revision)

    def _revision_updated(self, old: Object, new: Object) -> None:
        before, after = controller_of(old), controller_of(new)
        if before is not None and before != after:
            self._revision_deleted(old)
        if after is not None:
            self._revision_deleted(new)
        elif before is not None or old["metadata"].get("labels") != new["metadata"].get("labels"):
            self.enqueue_matching(new)

    def _revision_deleted(self, revision: Object) -> None:
        """Wakes the set that a revision belongs to."""
        owner = self.owner_of(revision)
        if owner is not None:
            self.enqueue(owner)

    def _node_added(self, node: Object) -> None:
        for daemon_set in self.objects.list():
            if belongs(daemon_set, node)[0]:
                self.enqueue(daemon_set)

    def _node_updated(self, old: Object, new: Object) -> None:
        """Heartbeats wake no set: labels and taints alone decide where its pods belong."""
        if _placing(old) == _placing(new):
            return
        for daemon_set in self.objects.list():
            concerned = (
                self._needs_sync(daemon_set, new)
                if self._wakes_by_need
                else belongs(daemon_set, old) != belongs(daemon_set, new)
            )
            if concerned:
                self.enqueue(daemon_set)

    def _needs_sync(self, daemon_set: Object, node: Object) -> bool:
        starts, may_go_on = belongs(daemon_set, node)
        name = node["metadata"]["name"]
        if not any(pod["spec"].get("nodeName") == name for pod in self.dependents.of(daemon_set)):
            return starts
        return not may_go_on or bool((daemon_set.get("status") or {}).get("numberMisscheduled"))

    # -- reconciliation

    async def sync(self, key: Key) -> None:
        self.own_writes.ensure_seen(key)
        daemon_set = self.objects.get(*key)
        if daemon_set is None:
            self.expectations.forget(key)
            return
        if self.selector(daemon_set).is_empty():
            self.recorder.event(daemon_set, "Warning", "SelectingAll", _ALL_PODS)
            return
        if daemon_set["metadata"].get("deletionTimestamp"):
            return
        current, old = await self._history(daemon_set)
        text = (current["metadata"].get("labels") or {}).get(REVISION_LABEL) or ""
        if not self.expectations.satisfied(key):
            await self._note(key, daemon_set, text, observed=False)
            return
        try:
            await self._update(key, daemon_set, text, old)
        finally:
            await self._note(key, daemon_set, text, observed=True)

    async def _update(self, key: Key, daemon_set: Object, text: str, old: list[Object]) -> None:
        await self._carry_out(key, daemon_set, text, await self._present(daemon_set, text))
        strategy = (daemon_set["spec"].get("updateStrategy") or {}).get("type")
        if self.expectations.satisfied(key) and strategy == "RollingUpdate":
            await self._carry_out(key, daemon_set, text, await self._rolled(daemon_set, text))
        await self._truncate(daemon_set, old)

    async def _on_nodes(self, daemon_set: Object) -> OnNodes:
        """Pods that have ended and are being deleted are left out."""
        found: OnNodes = {}
        for pod in await self.claim_pods(daemon_set):
            if is_terminal(pod) and pods.is_terminating(pod):
                continue
            found.setdefault(target_node(pod), []).append(pod)
        return found

    async def _present(self, daemon_set: Object, text: str) -> Plan:
        plan, classifier = Plan(), PodClassifier(daemon_set, text, self.clock.now())
        on_nodes = await self._on_nodes(daemon_set)
        nodes = self._nodes.list()
        for node in nodes:
            name = node["metadata"]["name"]
            starts, goes_on = belongs(daemon_set, node)
            found = on_nodes.get(name)
            if found is None:
                plan.nodes += [name] if starts else []
            elif goes_on:
                alive = self._without_ended(daemon_set, name, found, plan)
                plan.pods += classifier.excess(alive)
            else:
                plan.pods += [pod for pod in found if not pods.is_terminating(pod)]
        known = {node["metadata"]["name"] for node in nodes}
        for name, found in on_nodes.items():
            if name not in known:  # the node was deleted before the pod was bound
                plan.pods += [pod for pod in found if not pod["spec"].get("nodeName")]
        return plan

    def _without_ended(self, daemon_set: Object, node: str, found: list[Object], plan: Plan) -> list[Object]:
        """Plans the deletion of ended pods, of failed ones after a backoff; running pods remain."""
        running = []
        for pod in found:
            if pods.is_terminating(pod):
                continue
            where = f"{pod['metadata']['namespace']}/{pod['metadata']['name']} on node {node}"
            if pods.phase(pod) == "Failed":
                if self._backs_off(daemon_set, node):
                    continue
                text = f"Found failed daemon pod {where}, will try to kill it"
                self.recorder.event(daemon_set, "Warning", "FailedDaemonPod", text)
                plan.pods.append(pod)
            elif pods.phase(pod) == "Succeeded":
                text = f"Found succeeded daemon pod {where}, will try to delete it"
                self.recorder.event(daemon_set, "Normal", "SucceededDaemonPod", text)
                plan.pods.append(pod)
            else:
                running.append(pod)
        return running

    def _backs_off(self, daemon_set: Object, node: str) -> bool:
        """True if the failed pod of the node was replaced too recently; the set is queued for later then."""
        key, now = (daemon_set["metadata"]["uid"], node), self.clock.monotonic()
        until, seconds = self._backoff.get(key, (0.0, 0.0))
        if now < until:
            self.queue.add_after(key_of(daemon_set), until - now)
            return True
        fresh = not seconds or now - until > 2 * _MAX_BACKOFF_SECONDS
        seconds = _FIRST_BACKOFF_SECONDS if fresh else min(2 * seconds, _MAX_BACKOFF_SECONDS)
        self._backoff[key] = (now + seconds, seconds)
        return False

    async def _rolled(self, daemon_set: Object, text: str) -> Plan:
        wanted = {node["metadata"]["name"] for node in self._nodes.list() if belongs(daemon_set, node)[0]}
        max_surge, max_unavailable = limits(daemon_set, len(wanted))
        classifier = PodClassifier(daemon_set, text, self.clock.now())
        on_nodes = await self._on_nodes(daemon_set)
        if max_surge:
            return classifier.surge(on_nodes, max_surge, wanted.__contains__, len(wanted))
        return classifier.replace(
            on_nodes, max_unavailable, ignores_old_unavailable=self._ignores_old_unavailable
        )

    async def _carry_out(self, key: Key, daemon_set: Object, text: str, plan: Plan) -> None:
        nodes, gone = plan.nodes[:BURST_REPLICAS], plan.pods[:BURST_REPLICAS]
        if not nodes and not gone:
            return
        self.expectations.expect(key, len(nodes), [key_of(pod) for pod in gone])
        template, left = pod_template(daemon_set, text), iter(nodes)

        async def create() -> None:
            pinned = pinned_to(template, next(left))
            await self.create_pod(pinned, daemon_set)

        successes, failures = await slow_start(len(nodes), 1, create)
        for _ in range(len(nodes) - successes):
            self.expectations.creation_seen(key)  # its event will not come
        failure = await self.delete_pods(key, daemon_set, gone)
        failures = [failure for failure in failures if not is_namespace_terminating(failure)]
        failures += [failure] if failure is not None else []
        if failures:
            raise failures[0]

    # -- history

    async def _history(self, daemon_set: Object) -> tuple[Object, list[Object]]:
        """The pair is (revision of the present template, other revisions); the former is created if there is
        none.
        """
        selector = self.selector(daemon_set)
        found = await self._revisions.of(
            daemon_set, lambda one: selector.matches(one["metadata"].get("labels"))
        )
        wanted = history.patch_of(daemon_set, writes_empty_times=self._writes_empty_times)
        equal = [revision for revision in found if revision.get("data") == wanted]
        old = [revision for revision in found if revision not in equal]
        number = history.next_number(old)
        if not equal:
            return await self._create_revision(daemon_set, number, wanted), old
        current = equal[-1]
        if (current.get("revision") or 0) < number:
            current = await self._revisions.renumber(current, number)
        return current, old + equal[:-1]

    async def _create_revision(self, daemon_set: Object, number: int, wanted: RawObject) -> Object:
        status = daemon_set.get("status") or {}
        collisions = status.get("collisionCount")
        while True:
            text = template_hash(daemon_set["spec"].get("template"), collisions)
            new = history.new_revision(daemon_set, self.ref, number, wanted, text, REVISION_LABEL)
            made = await self._revisions.create(new)
            if made is not None:
                return made
            collisions = (collisions or 0) + 1
            await self.write_status(daemon_set, {**status, "collisionCount": collisions})

    async def _truncate(self, daemon_set: Object, old: Sequence[Object]) -> None:
        limit = daemon_set["spec"].get("revisionHistoryLimit")
        found = await self._on_nodes(daemon_set)
        live = {
            (pod["metadata"].get("labels") or {}).get(REVISION_LABEL) or ""
            for pods_of_node in found.values()
            for pod in pods_of_node
        }
        excess = len(old) - (_DEFAULT_HISTORY if limit is None else int(limit))
        await self._revisions.delete(history.unused(old, live - {""})[: max(0, excess)])

    # -- the status

    async def _note(self, key: Key, daemon_set: Object, text: str, *, observed: bool) -> None:
        status = await self._status(daemon_set, text)
        present = daemon_set.get("status") or {}
        if observed:
            status["observedGeneration"] = daemon_set["metadata"].get("generation", 0)
        if any((present.get(name) or 0) != value for name, value in status.items()):
            await self.write_status(daemon_set, {**present, **status})
        wait = daemon_set["spec"].get("minReadySeconds") or 0
        if wait and status["numberReady"] != status["numberAvailable"]:
            self.queue.add_after(key, wait)

    async def _status(self, daemon_set: Object, text: str) -> Object:
        classifier, on_nodes = (
            PodClassifier(daemon_set, text, self.clock.now()),
            await self._on_nodes(daemon_set),
        )
        names = (
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "numberMisscheduled",
            "numberReady",
            "updatedNumberScheduled",
            "numberAvailable",
        )
        status: Object = dict.fromkeys(names, 0)
        for node in self._nodes.list():
            found = on_nodes.get(node["metadata"]["name"])
            if not belongs(daemon_set, node)[0]:
                status["numberMisscheduled"] += bool(found)
                continue
            status["desiredNumberScheduled"] += 1
            if found:
                pod = by_age(found)[0]
                status["currentNumberScheduled"] += 1
                status["numberReady"] += pods.is_ready(pod)
                status["numberAvailable"] += classifier.is_available(pod)
                status["updatedNumberScheduled"] += classifier.is_updated(pod)
        status["numberUnavailable"] = status["desiredNumberScheduled"] - status["numberAvailable"]
        return status


def _placing(node: Object) -> tuple[object, object]:
    return node["metadata"].get("labels") or {}, (node.get("spec") or {}).get("taints") or []
