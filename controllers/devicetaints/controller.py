"""The device taint eviction controller: decides which pods to evict when, and writes the status of taint
rules; with its metrics.

Handlers decide which pods are evicted; the work is their deletion, and the status of rules.

Sources: the metrics package of k8s.io/kubernetes/pkg/controller/devicetainteviction, 1.33 … 1.37;
k8s.io/kubernetes/pkg/controller/devicetainteviction, 1.33 … 1.37.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Histogram

from kubeskew.apimachinery.claim_users import is_pod_group, reservation, reserved_for
from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.refs import PODS, dra_refs, taint_rules_ref
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.devicetaints import evictions
from kubeskew.controllers.devicetaints.evictions import Eviction, RuleMatcher, RuleStatus
from kubeskew.controllers.devicetaints.features import DeviceTaintFeatures
from kubeskew.controllers.framework import pods
from kubeskew.controllers.framework.base import Controller, ControllerContext, Key, key_of
from kubeskew.controllers.framework.device_pools import Pool, pool_of, results, selects
from kubeskew.controllers.framework.features import DisruptionMarks
from kubeskew.controllers.framework.pod_control import mark_and_delete
from kubeskew.controllers.resourceclaim import claims
from kubeskew.controllers.resourceclaim.claims import ClaimError, ClaimNotCreated, extended_claim_name
from kubeskew.controllers.resourceclaim.features import ResourceClaimFeatures

_PREFIX = "device_taint_eviction_controller_"
_BUCKETS = (0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240)
_STATUS_SECONDS = 10.0  # least time between two updates of a rule's status
_REMEMBERED = 500


class EvictionMetrics:
    """Counts evictions. Another controller may register only after `close`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._deletions = Counter(
            f"{_PREFIX}pod_deletions", "Pods deleted since the start.", registry=registry
        )
        self._latency = Histogram(
            f"{_PREFIX}pod_deletion_duration_seconds",
            "Seconds from when a taint took effect to the deletion of a pod.",
            buckets=_BUCKETS,
            registry=registry,
        )

    def deleted(self, seconds: float) -> None:
        self._deletions.inc()
        self._latency.observe(seconds)

    def close(self) -> None:
        self._registry.unregister(self._deletions)
        self._registry.unregister(self._latency)


class Work(NamedTuple):
    """A pod that may have to be evicted, or a rule whose status may be out of date."""

    kind: str  # pod, rule
    key: Key
    uid: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.key}"


class DeviceTaintEvictionController(Controller):
    name = "device-taint-eviction-controller"
    component = "device-taint-eviction-controller"
    default_workers = 8

    def __init__(self, context: ControllerContext) -> None:
        version, gates = context.environment.version, context.environment.gates
        self._features = features = DeviceTaintFeatures.of(gates)
        self.queue_name = self.name if features.has_queue else None
        super().__init__(context)
        refs = dra_refs(version)
        self._claim_features = ResourceClaimFeatures.of(gates)
        self._disruption = DisruptionMarks.of(gates)
        self._due: dict[Work, Eviction] = {}
        self._evicted: dict[str, None] = {}  # uids of pods that are deleted or done, oldest first
        self._emitted = False
        self._tainted: dict[Pool, dict[str, list[Object]]] = {}
        self._metrics = EvictionMetrics(context.registry)
        self._pods, self._claims = context.informer(PODS), context.informer(refs.claims)
        self._slices, classes = context.informer(refs.slices), context.informer(refs.device_classes)
        self._matcher = RuleMatcher(features, lambda name: classes.get("", name))
        rules_ref = taint_rules_ref(version)
        self._rules: Informer | None = context.informer(rules_ref) if features.rules else None
        self._status = RuleStatus(context, self.name) if features.rule_status else None
        if features.rules_name_classes:
            changed = self._class_changed
            classes.add_handler(changed, lambda _, new: changed(new), changed)
        self._subscribe()

    def _subscribe(self) -> None:
        self._pods.add_index("pod group", claims.group_keys)
        self._claims.add_index("pool", lambda claim: [_text(pool) for pool in _pools(claim)])
        self._slices.add_index("pool", lambda one: [_text(pool_of(one))])
        self._claims.add_handler(self._handle_users, self._claim_updated, self._handle_users)
        self._pods.add_handler(self._handle_pod, self._pod_updated, self._pod_deleted)
        changed = self._slice_changed
        self._slices.add_handler(changed, lambda _, new: changed(new), changed)
        if self._rules is not None:
            self._rules.add_handler(self._rule_added, self._rule_updated, self._rule_deleted)

    async def stop(self) -> None:
        self._metrics.close()
        await super().stop()

    # -- event handlers

    def _claim_updated(self, old: Object, new: Object) -> None:
        if reserved_for(old) != reserved_for(new):
            self._handle_users(old)
        self._handle_users(new)

    def _handle_users(self, claim: Object) -> None:
        namespace = claim["metadata"]["namespace"]
        for consumer in reserved_for(claim):
            if claims.is_pod_reference(consumer):
                pod = self._pods.get(namespace, consumer["name"])
                if pod is not None and pod["metadata"]["uid"] == consumer["uid"]:
                    self._handle_pod(pod)
            elif self._features.pod_group_claims and is_pod_group(consumer):
                for pod in self._pods.by_index("pod group", f"{namespace}/{consumer['name']}"):
                    self._handle_pod(pod)

    def _pod_updated(self, old: Object, new: Object) -> None:
        """Only changes of a pod's node and claims matter; pods change often."""
        if self._relevant(old) != self._relevant(new):
            self._handle_pod(new)

    def _relevant(self, pod: Object) -> tuple[object, object, object]:
        extended = extended_claim_name(pod) if self._features.extended_claims else ""
        return pod["spec"].get("nodeName"), (pod.get("status") or {}).get("resourceClaimStatuses"), extended

    def _pod_deleted(self, pod: Object) -> None:
        self._due.pop(_work("pod", pod), None)

    def _slice_changed(self, slice_: Object) -> None:
        pool = pool_of(slice_)
        found = evictions.tainted(self._devices(pool))
        before = self._tainted.pop(pool, {})
        if found:
            self._tainted[pool] = found
        if found != before or self._features.rules_name_classes:
            for claim in self._claims.by_index("pool", _text(pool)):
                self._handle_users(claim)

    def _rule_added(self, rule: Object) -> None:
        self._look_at(rule)
        self._handle_all()

    def _rule_updated(self, old: Object, new: Object) -> None:
        if old["spec"] != new["spec"] or old["metadata"]["uid"] != new["metadata"]["uid"]:
            self._look_at(new)
            self._handle_all()

    def _rule_deleted(self, rule: Object) -> None:
        if self._status is not None:
            self._status.forget(rule)
        self._handle_all()

    def _look_at(self, rule: Object, seconds: float = 0.0) -> None:
        if self._status is not None:
            self.queue.add_after(_work("rule", rule), seconds)

    def _class_changed(self, _class: Object) -> None:
        self._handle_all()

    def _handle_all(self) -> None:
        """Checking every claim is affordable because rules change rarely."""
        for claim in self._claims.list():
            self._handle_users(claim)

    def _handle_pod(self, pod: Object) -> None:
        eviction, work = self._eviction_of(pod, self._evicting()), _work("pod", pod)
        if eviction is None:
            if self._due.pop(work, None) is not None:
                self._emit(pod, "Cancelling deletion")
            return
        self._due[work] = eviction
        self.queue.add_after(work, self._seconds_until(eviction))
        for rule in self._rules.list() if self._rules is not None else ():
            if rule["metadata"]["uid"] in eviction.rules:
                self._look_at(rule, _STATUS_SECONDS)

    def _seconds_until(self, eviction: Eviction) -> float:
        return (eviction.when - self.clock.now()).total_seconds()

    def _emit(self, pod: Object, text: str) -> None:
        about = {"apiVersion": "v1", "kind": "Pod", **pod}
        self.recorder.event(about, "Normal", "DeviceTaintManagerEviction", text)

    # -- reasons for evictions

    def _evicting(self) -> list[Object]:
        rules = self._rules.list() if self._rules is not None else ()
        return [rule for rule in rules if rule["spec"]["taint"].get("effect") == evictions.NO_EXECUTE]

    def _devices(self, pool: Pool) -> dict[str, Object]:
        return evictions.devices_of(self._slices.by_index("pool", _text(pool)))

    def _eviction_of(self, pod: Object, rules: Sequence[Object]) -> Eviction | None:
        if not pod["spec"].get("nodeName"):
            return None
        used = self._used_claims(pod)
        return evictions.joined(
            eviction for claim in used for eviction in self._claim_evictions(claim, rules)
        )

    def _used_claims(self, pod: Object) -> Iterator[Object]:
        """Only allocated claims that are reserved for the pod count."""
        for name, owned in self._named_claims(pod):
            claim = self._claims.get(pod["metadata"]["namespace"], name)
            if claim is None or not results(claim):
                continue
            try:
                if owned:
                    claims.check_owner(pod, claim, groups=self._features.pod_group_claims)
            except ClaimError:
                continue
            if reservation(claim, pod, groups=self._features.pod_group_claims) is not None:
                yield claim

    def _named_claims(self, pod: Object) -> Iterator[tuple[str, bool]]:
        """A pod must own the claim if the second value is true."""
        for pod_claim in pod["spec"].get("resourceClaims") or ():
            try:
                name, owned = claims.claim_name(pod, pod_claim, self._claim_features)
            except (ClaimNotCreated, ClaimError):
                continue
            if name:
                yield name, owned
        if self._features.extended_claims and (name := extended_claim_name(pod)):
            yield name, True

    def _claim_evictions(self, claim: Object, rules: Sequence[Object]) -> Iterator[Eviction]:
        for result in results(claim):
            pool = pool_of(result)
            device = self._devices(pool).get(result["device"])
            taints = [(taint, "") for taint in (device or {}).get("taints") or ()]
            for rule in rules:
                if self._matcher.matches(rule, pool, result["device"], device):
                    taint = {**rule["spec"]["taint"], "effect": evictions.NO_EXECUTE}
                    taints.append((taint, rule["metadata"]["uid"]))
            for taint, uid in taints:
                if taint.get("effect") != evictions.NO_EXECUTE:
                    continue
                when = evictions.eviction_time(taint, result.get("tolerations") or ())
                if when is not None:
                    yield Eviction(when, frozenset({uid} - {""}))

    # -- work

    async def sync(self, key: Work) -> None:
        if key.kind == "pod":
            await self._evict(key)
        elif self._rules is not None and self._status is not None:
            rule = self._rules.get(*key.key)
            if rule is not None and rule["metadata"]["uid"] == key.uid:
                later = await self._status.update(rule, self._concerned)
                self.queue.add_after(key, later) if later else None

    async def _evict(self, work: Work) -> None:
        eviction = self._due.get(work)
        if eviction is None or work.uid in self._evicted:
            return
        left = self._seconds_until(eviction)
        if left > 0:
            self.queue.add_after(work, left)
            return
        done = await self._delete(work)
        self._due.pop(work, None)
        self._evicted[work.uid] = None
        if len(self._evicted) > _REMEMBERED:
            del self._evicted[next(iter(self._evicted))]
        if done:
            self._metrics.deleted(-self._seconds_until(eviction))
            self._count(eviction)

    async def _delete(self, work: Work) -> bool:
        """False if the pod was gone."""
        try:
            pod = await self.client.get(PODS, work.key.name, work.key.namespace)
            if pod["metadata"]["uid"] != work.uid:
                return False
            if not pods.is_terminating(pod):
                if not (self._features.one_event and self._emitted):
                    self._emit(pod, "Marking for deletion")
                    self._emitted = True
                reason = "DeletionByDeviceTaintManager"
                message = "Device Taint manager: deleting due to NoExecute taint"
                await mark_and_delete(
                    *(self.client, self.clock, pod, reason, message, self._disruption, self.name),
                    observes=False,
                )
        except StatusError as error:
            if error.code == 404:
                return False
            raise
        return True

    def _count(self, eviction: Eviction) -> None:
        for rule in self._rules.list() if self._rules is not None and self._status is not None else ():
            if rule["metadata"]["uid"] in eviction.rules and self._status is not None:
                self._status.evicted(rule)
                self._look_at(rule, _STATUS_SECONDS)

    def _concerned(self, rule: Object) -> tuple[list[Object], int, int]:
        """The rule would evict these pods; the numbers are of the published and allocated
        devices it selects.
        """
        waiting = [pod for pod in self._pods.list() if not pods.is_terminating(pod)]
        uid = rule["metadata"]["uid"]
        found = [(pod, self._eviction_of(pod, (rule,))) for pod in waiting]
        users = [pod for pod, eviction in found if eviction is not None and uid in eviction.rules]
        known = {pool_of(slice_) for slice_ in self._slices.list()}
        published = sum(selects(rule, pool, name) for pool in known for name in self._devices(pool))
        allocated = sum(
            selects(rule, pool_of(result), result["device"])
            for claim in self._claims.list()
            for result in results(claim)
        )
        return users, published, allocated


def _work(kind: str, obj: Object) -> Work:
    return Work(kind, key_of(obj), obj["metadata"]["uid"])


def _pools(claim: Object) -> list[Pool]:
    return list(dict.fromkeys(map(pool_of, results(claim))))


def _text(pool: Pool) -> str:
    return f"{pool.driver}/{pool.name}"
