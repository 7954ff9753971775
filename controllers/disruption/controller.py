"""The disruption controller's loop: computes what each pod disruption budget allows now.

Behaviour of k8s.io/kubernetes/pkg/controller/disruption, 1.36.
"""

from typing import NamedTuple

from kubeskew.apimachinery.client.refs import POD_DISRUPTION_BUDGETS, PODS
from kubeskew.apimachinery.clock import parse_timestamp, timestamp
from kubeskew.apimachinery.conditions import find_condition, with_condition
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.selectors.labels import LabelSelector
from kubeskew.controllers.disruption import arithmetic
from kubeskew.controllers.disruption.features import DisruptionFeatures
from kubeskew.controllers.disruption.scales import Scales
from kubeskew.controllers.framework import pods
from kubeskew.controllers.framework.base import Controller, ControllerContext, Key, SyncError

_STALE_SECONDS = 120.0


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
        self._pods.add_handler(self._pod_changed, self._pod_updated, self._enqueue_budgets)

    # -- what is told

    def _pod_updated(self, old: Object, new: Object) -> None:
        self._pod_changed(new)
        if old["metadata"].get("labels") != new["metadata"].get("labels"):
            self._enqueue_budgets(old)

    def _pod_changed(self, pod: Object) -> None:
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

    # -- what is done

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

    async def _reconcile(self, key: Key, budget: Object) -> None:
        found = [pod for pod in self._pods.list(key.namespace) if _selects(budget, pod)]
        if not found:
            self.recorder.event(budget, "Normal", "NoPods", "No matching pods found")
        expected = 0
        if arithmetic.asks_owners(budget):
            try:
                expected = await self._scales.expected(found)
            except SyncError as error:
                text = f"Failed to calculate the number of expected pods: {error}"
                self.recorder.event(budget, "Warning", "CalculateExpectedPodCountFailed", text)
                raise
        now = self.clock.now()
        desired, expected = arithmetic.desired_healthy(budget, len(found), expected)
        disrupted, late, wait = arithmetic.still_disrupted(budget, found, now)
        for pod in late:
            whose = f"{key.namespace}/{key.namespace}"  # upstream names the namespace twice
            text = f"Pod was expected by PDB {whose} to be deleted but it wasn't"
            self.recorder.event(pod, "Warning", "NotDeleted", text)
        current = arithmetic.healthy(found, disrupted, now)
        forgets = self._features.forgets_conditions
        status = arithmetic.status_of(
            budget, current, desired, expected, disrupted, now, forgets_conditions=forgets
        )
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
        condition = arithmetic.allowed_condition(
            "False", "SyncFailed", str(error), generation, self.clock.now()
        )
        status["conditions"] = with_condition(status.get("conditions") or (), condition)
        await self._write(budget, status)

    # -- pods that were to go and did not

    def _stale_in(self, pod: Object) -> float | None:
        """Returns the seconds until the pod's DisruptionTarget no longer counts; None if it has none."""
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
        others = [
            condition for condition in pod["status"]["conditions"] if condition["type"] != "DisruptionTarget"
        ]
        changed = {**pod, "status": {**pod["status"], "conditions": [*others, gone]}}
        await self.client.update(PODS, changed, "status")


def _selects(budget: Object, pod: Object) -> bool:
    """Returns whether the budget selects the pod: an empty selector selects all, no selector none."""
    selector = budget["spec"].get("selector")
    if selector is None:
        return False
    try:
        return bool(LabelSelector.from_object(selector).matches(pod["metadata"].get("labels")))
    except ValueError:
        return False
