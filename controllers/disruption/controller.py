"""The disruption controller: finds how many pods the owners of a budget's pods want, computes the disruptions
that each pod disruption budget allows now, and keeps its status.

Sources: k8s.io/kubernetes/pkg/controller/disruption and component-helpers/apps/poddisruptionbudget, 1.36; the
finders of k8s.io/kubernetes/pkg/controller/disruption, 1.36: the built-in kinds, and others with a scale
subresource; k8s.io/kubernetes/pkg/controller/disruption, 1.36.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from kubeskew.apimachinery import go_formats
from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.refs import (
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Ref,
)
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.clock import parse_timestamp, timestamp
from kubeskew.apimachinery.conditions import find_condition, with_condition, without_condition
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object, controller_of
from kubeskew.apimachinery.selectors.labels import selector_or_nothing
from kubeskew.controllers.disruption.features import DisruptionFeatures
from kubeskew.controllers.framework import owner_references, pods
from kubeskew.controllers.framework.base import Controller, ControllerContext, Key, SyncError
from kubeskew.controllers.framework.discovery import served_resources
from kubeskew.controllers.framework.pod_control import scaled

ALLOWED = "DisruptionAllowed"
DELETION_SECONDS = 120.0  # seconds after which an evicted pod that still exists counts again
_WITHOUT_SCALE = {("batch", "Job"): "jobs.batch", ("apps", "DaemonSet"): "daemonsets.apps"}
_STALE_SECONDS = 120.0


def desired_healthy(budget: Object, found: int, expected: int) -> tuple[int, int]:
    """The pair is (pods that must be healthy, pods there should be); `expected` is the owners' number."""
    spec = budget["spec"]
    if spec.get("maxUnavailable") is not None:
        return max(0, expected - scaled(spec["maxUnavailable"], expected, round_up=True)), expected
    least = spec.get("minAvailable")
    if isinstance(least, str):
        return scaled(least, expected, round_up=True), expected
    return int(least or 0), found


def asks_owners(budget: Object) -> bool:
    """Percentages and maxUnavailable depend on the number of pods there should be."""
    spec = budget["spec"]
    return spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)


def still_disrupted(
    budget: Object, found: Sequence[Object], now: datetime
) -> tuple[dict[str, str], list[Object], float | None]:
    """Evicted pods are about to go, or did not go in time; the number is the seconds until the next one is
    late.
    """
    noted = (budget.get("status") or {}).get("disruptedPods") or {}
    kept: dict[str, str] = {}
    late: list[Object] = []
    waits: list[float] = []
    for pod in found:
        since = noted.get(pod["metadata"]["name"])
        if since is None or pods.is_terminating(pod):
            continue
        left = _deadline(since) - now
        if left < timedelta():
            late.append(pod)
        else:
            kept[pod["metadata"]["name"]] = since
            waits.append(left.total_seconds())
    return kept, late, min(waits, default=None)


def _deadline(since: str) -> datetime:
    return parse_timestamp(since) + timedelta(seconds=DELETION_SECONDS)


def healthy(found: Sequence[Object], disrupted: Mapping[str, str], now: datetime) -> int:
    return sum(
        pods.is_ready(pod)
        and not pods.is_terminating(pod)
        and not (pod["metadata"]["name"] in disrupted and _deadline(disrupted[pod["metadata"]["name"]]) > now)
        for pod in found
    )


def status_of(
    budget: Object,
    current: int,
    desired: int,
    expected: int,
    disrupted: Mapping[str, str],
    now: datetime,
    *,
    forgets_conditions: bool = False,
) -> Object:
    """Equals the present status if nothing changed.

    `forgets_conditions`: one that changes has no condition but the one made here, as if it began now.
    """
    allowed = max(0, current - desired) if expected > 0 else 0
    before = budget.get("status") or {}
    wanted: Object = {
        "observedGeneration": budget["metadata"].get("generation", 0),
        "disruptionsAllowed": allowed,
        "currentHealthy": current,
        "desiredHealthy": desired,
        "expectedPods": expected,
    }
    if disrupted:
        wanted["disruptedPods"] = dict(disrupted)
    reason = "SufficientPods" if allowed else "InsufficientPods"
    condition = allowed_condition(
        "True" if allowed else "False", reason, "", wanted["observedGeneration"], now
    )
    wanted["conditions"] = with_condition(before.get("conditions") or (), condition)
    return {**wanted, "conditions": [condition]} if forgets_conditions and wanted != before else wanted


def allowed_condition(status: str, reason: str, message: str, generation: int, now: datetime) -> Object:
    return {
        "type": ALLOWED,
        "status": status,
        "observedGeneration": generation,
        "lastTransitionTime": timestamp(now),
        "reason": reason,
        "message": message,
    }


class Scales:
    def __init__(self, context: ControllerContext) -> None:
        self._client: APIClient = context.client
        self._informers: dict[tuple[str, str], Informer] = {
            (ref.group, ref.kind): context.informer(ref)
            for ref in (REPLICA_SETS, STATEFUL_SETS, REPLICATION_CONTROLLERS)
        }
        self._deployments = context.informer(DEPLOYMENTS)
        self._refs: dict[tuple[str, str], Ref] = {}

    async def expected(self, found: Sequence[Object]) -> int:
        """Sums over all owners of the pods; pods without one do not count. Raises SyncError."""
        counts: dict[str, int] = {}
        for pod in found:
            reference = controller_of(pod)
            if reference is None or reference["uid"] in counts:
                continue
            uid, count = await self._scale(reference, pod)
            counts[reference["uid"]] = 0
            counts[uid] = count
        return sum(counts.values())

    async def _scale(self, reference: Object, pod: Object) -> tuple[str, int]:
        """The deciding owner is (uid, replicas): a replica set's deployment decides for it."""
        namespace = pod["metadata"]["namespace"]
        group = reference["apiVersion"].rpartition("/")[0]
        informer = self._informers.get((group, reference["kind"]))
        if informer is None:
            return await self._other(reference, group, pod)
        owner = informer.get(namespace, reference["name"])
        if owner is None or owner["metadata"]["uid"] != reference["uid"]:
            raise _no_controllers(pod)
        deployment = owner_references.resolve_controller(owner, DEPLOYMENTS, self._deployments.get)
        deciding = owner if deployment is None else deployment
        replicas = deciding["spec"].get("replicas")
        return deciding["metadata"]["uid"], 1 if replicas is None else int(replicas)

    async def _other(self, reference: Object, group: str, pod: Object) -> tuple[str, int]:
        if (group, reference["kind"]) in _WITHOUT_SCALE:
            resource = _WITHOUT_SCALE[group, reference["kind"]]
            raise SyncError(f"{resource} does not implement the scale subresource")
        ref = await self._ref(group, reference)
        try:
            scale = await self._client.get(
                ref, reference["name"], pod["metadata"]["namespace"], subresource="scale"
            )
        except StatusError as error:
            if error.code != 404:
                raise
            if await self._has_scale(ref):
                raise _no_controllers(pod) from error
            resource = f"{ref.plural}.{ref.group}" if ref.group else ref.plural
            raise SyncError(f"{resource} does not implement the scale subresource") from error
        if scale["metadata"].get("uid") != reference["uid"]:
            raise _no_controllers(pod)
        return reference["uid"], int((scale.get("spec") or {}).get("replicas") or 0)

    async def _has_scale(self, ref: Ref) -> bool:
        """Discovery distinguishes a kind without scale from a missing object."""
        listed = await self._client.request("GET", f"{'/apis' if ref.group else '/api'}/{ref.api_version}")
        return any(resource["name"] == f"{ref.plural}/scale" for resource in listed.get("resources") or ())

    async def _ref(self, group: str, reference: Object) -> Ref:
        known = self._refs.get((group, reference["kind"]))
        if known is None:
            served = await served_resources(self._client)
            self._refs = {
                (resource.ref.group, resource.ref.kind): resource.ref
                for resource in served
                if resource.preferred
            }
            known = self._refs.get((group, reference["kind"]))
        if known is None:
            version = reference["apiVersion"].rpartition("/")[2]
            text = f'no matches for kind "{reference["kind"]}" in version "{group}/{version}"'
            raise SyncError(text)
        return known


def _no_controllers(pod: Object) -> SyncError:
    return SyncError(f'found no controllers for pod "{pod["metadata"]["name"]}"')


class StaleTarget(NamedTuple):
    """A pod that was to be evicted, and may still exist."""

    namespace: str
    pod: str
    what: str = "stale target"  # never equal to a budget's key


class DisruptionController(Controller):
    name = "disruption-controller"
    component = "controllermanager"
    default_workers = 1

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._features = DisruptionFeatures.of(context.environment.gates)
        self._scales = Scales(context)
        self._budgets = context.informer(POD_DISRUPTION_BUDGETS)
        self._pods = context.informer(PODS)
        self._budgets.add_handler(self.enqueue, lambda _, new: self.enqueue(new))
        self._pods.add_handler(
            self._pod_changed, lambda _, new: self._pod_changed(new), self._enqueue_budgets
        )

    # -- event handlers

    def _pod_changed(self, pod: Object) -> None:
        """A budget does not notice that a pod's new labels are no longer its own (updatePod, 1.31 … 1.36)."""
        self._enqueue_budgets(pod)
        left = self._stale_in(pod)
        if left is not None:
            metadata = pod["metadata"]
            self.queue.add_after(StaleTarget(metadata["namespace"], metadata["name"]), left)

    def _enqueue_budgets(self, pod: Object) -> None:
        found = [
            budget for budget in self._budgets.list(pod["metadata"]["namespace"]) if _selects(budget, pod)
        ]
        for budget in found:
            self.enqueue(budget)
        if len(found) > 1:
            metadata = pod["metadata"]
            text = (
                f'Pod "{metadata["namespace"]}"/"{metadata["name"]}" matches multiple PodDisruptionBudgets.  '
                f'Chose "{found[0]["metadata"]["name"]}" arbitrarily.'
            )
            self.recorder.event(pod, "Warning", "MultiplePodDisruptionBudgets", text)

    # -- reconciliation

    async def sync(self, key: Key | StaleTarget) -> None:
        if isinstance(key, StaleTarget):
            await self._withdraw(key)
            return
        budget = self._budgets.get(*key)
        if budget is None:
            return
        try:
            await self._reconcile(key, budget)
        except (SyncError, StatusError) as error:
            if isinstance(error, StatusError) and error.code == 409:
                raise
            await self._fail_safe(budget, error)

    def _report_unmanaged(self, budget: Object) -> None:
        """Source: k8s.io/kubernetes/pkg/controller/disruption/disruption.go, trySync, 1.31 … 1.36."""
        selector = go_formats.label_selector_text((budget.get("spec") or {}).get("selector") or {})
        text = (
            f"Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be unmanaged. "
            "As a result, the status of the PDB cannot be calculated correctly, which may result in "
            'undefined behavior. To account for these pods please set ".spec.minAvailable" field of the PDB '
            "to an integer value."
        )
        self.recorder.event(budget, "Warning", "UnmanagedPods", text)

    async def _reconcile(self, key: Key, budget: Object) -> None:
        found = [pod for pod in self._pods.list(key.namespace) if _selects(budget, pod)]
        if not found:
            self.recorder.event(budget, "Normal", "NoPods", "No matching pods found")
        expected = 0
        if asks_owners(budget):
            try:
                expected = await self._scales.expected(found)
            except SyncError as error:
                text = f"Failed to calculate the number of expected pods: {error}"
                self.recorder.event(budget, "Warning", "CalculateExpectedPodCountFailed", text)
                raise
            if any(controller_of(pod) is None for pod in found):
                self._report_unmanaged(budget)
        now = self.clock.now()
        desired, expected = desired_healthy(budget, len(found), expected)
        disrupted, late, wait = still_disrupted(budget, found, now)
        for pod in late:
            whose = f"{key.namespace}/{key.namespace}"  # upstream names the namespace twice
            text = f"Pod was expected by PDB {whose} to be deleted but it wasn't"
            self.recorder.event(pod, "Warning", "NotDeleted", text)
        current = healthy(found, disrupted, now)
        forgets = self._features.forgets_conditions
        status = status_of(budget, current, desired, expected, disrupted, now, forgets_conditions=forgets)
        await self._write(budget, status)
        if wait is not None:
            self.queue.add_after(key, wait)

    async def _write(self, budget: Object, status: Object) -> None:
        before = budget.get("status") or {}
        names = before.keys() | status.keys()
        if any((before.get(name) or 0) != (status.get(name) or 0) for name in names):
            await self.client.update(POD_DISRUPTION_BUDGETS, {**budget, "status": status}, "status")

    async def _fail_safe(self, budget: Object, error: Exception) -> None:
        """Allows no disruption, because nothing is known for certain."""
        status = dict(budget.get("status") or {})
        generation = status.get("observedGeneration") or 0
        status["disruptionsAllowed"] = 0
        condition = allowed_condition("False", "SyncFailed", str(error), generation, self.clock.now())
        status["conditions"] = with_condition(status.get("conditions") or (), condition)
        await self._write(budget, status)

    # -- pods that were not deleted in time

    def _stale_in(self, pod: Object) -> float | None:
        """DisruptionTarget no longer counts after these seconds; None if the pod has none."""
        found = find_condition(pod, "DisruptionTarget")
        if found is None or found["status"] != "True" or not pods.is_active(pod):
            return None
        since = parse_timestamp(found["lastTransitionTime"])
        return max(0.0, _STALE_SECONDS - (self.clock.now() - since).total_seconds())

    async def _withdraw(self, key: StaleTarget) -> None:
        pod = self._pods.get(key.namespace, key.pod)
        left = self._stale_in(pod) if pod is not None else None
        if pod is None or left is None:
            return
        if left:
            self.queue.add_after(key, left)
            return
        gone = {"type": "DisruptionTarget", "status": "False"}
        gone["lastTransitionTime"] = timestamp(self.clock.now())
        others = without_condition(pod["status"]["conditions"], "DisruptionTarget")
        changed = {**pod, "status": {**pod["status"], "conditions": [*others, gone]}}
        await self.client.update(PODS, changed, "status")


def _selects(budget: Object, pod: Object) -> bool:
    """An empty selector selects all pods, no selector none."""
    return selector_or_nothing(budget["spec"].get("selector")).matches(pod["metadata"].get("labels"))
