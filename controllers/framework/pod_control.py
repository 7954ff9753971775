"""Creates pods from templates, in growing batches, with events; deletes pods, evicted ones after a condition
with the reason; and resolves counts that may be percentages.

Source: k8s.io/kubernetes/pkg/controller/tainteviction (addConditionAndDeletePod), 1.36.
"""

import asyncio
from collections.abc import Awaitable, Callable

from kubeskew.apimachinery.client.recorder import EventRecorder
from kubeskew.apimachinery.client.refs import PODS, Ref
from kubeskew.apimachinery.client.rest import STRATEGIC_PATCH, APIClient
from kubeskew.apimachinery.clock import Clock, timestamp
from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework.features import DisruptionMarks
from kubeskew.controllers.framework.owner_references import new_controller_reference

_NAME_LIMIT = 253
NAMESPACE_TERMINATING = "NamespaceTerminating"
_TARGET = "DisruptionTarget"


def scaled(value: int | str | None, of: int, *, round_up: bool) -> int:
    """`value` may be a percentage of `of`; None counts as 0."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    share = int(value.removesuffix("%")) * of
    return -(-share // 100) if round_up else share // 100


async def slow_start(
    count: int, first_batch: int, action: Callable[[], Awaitable[None]]
) -> tuple[int, list[Exception]]:
    """Runs `action` `count` times in batches of 1, 2, 4, …; stops at the first batch with a failure.

    The result is (number of successes, failures). Thus a quota that refuses one pod is not tried a hundred
    times.
    """
    remaining, successes = count, 0
    batch = min(remaining, first_batch)
    while batch:
        results = await asyncio.gather(*(action() for _ in range(batch)), return_exceptions=True)
        failures = [result for result in results if isinstance(result, Exception)]
        successes += batch - len(failures)
        if failures:
            return successes, failures
        remaining -= batch
        batch = min(2 * batch, remaining)
    return successes, []


def pod_from_template(template: Object, owner: Object, owner_ref: Ref, prefix: str = "") -> Object:
    """Builds a pod as upstream's GetPodFromTemplate: template, generated name, controller reference."""
    metadata = template.get("metadata", {})
    prefix = prefix or owner["metadata"]["name"] + "-"
    pod_metadata = {
        "generateName": prefix if len(prefix) <= _NAME_LIMIT else owner["metadata"]["name"],
        "namespace": owner["metadata"]["namespace"],
        "ownerReferences": [new_controller_reference(owner, owner_ref)],
    }
    for name in ("labels", "annotations", "finalizers"):
        if metadata.get(name):
            pod_metadata[name] = metadata[name]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": pod_metadata, "spec": template.get("spec", {})}


def is_namespace_terminating(error: Exception) -> bool:
    """Retries are useless in a namespace that is being deleted."""
    causes = (error.details or {}).get("causes") if isinstance(error, StatusError) else None
    return any(cause.get("reason") == NAMESPACE_TERMINATING for cause in causes or ())


class PodControl:
    def __init__(self, client: APIClient, recorder: EventRecorder) -> None:
        self._client = client
        self._recorder = recorder

    async def create(self, template: Object, owner: Object, owner_ref: Ref, prefix: str = "") -> Object:
        """`prefix` begins the generated name; the owner's name by default."""
        try:
            made = await self._client.create(PODS, pod_from_template(template, owner, owner_ref, prefix))
        except Exception as error:
            if not is_namespace_terminating(error):
                self._recorder.event(owner, "Warning", "FailedCreate", f"Error creating: {error}")
            raise
        name = made["metadata"]["name"]
        self._recorder.event(owner, "Normal", "SuccessfulCreate", f"Created pod: {name}")
        return made

    async def delete(self, pod: Object, owner: Object) -> bool:
        """A pod is identified by its name in the owner's namespace; False if there is none."""
        metadata = pod["metadata"]
        try:
            await self._client.delete(PODS, metadata["name"], owner["metadata"]["namespace"])
        except StatusError as error:
            if error.code == 404:
                return False
            self._recorder.event(owner, "Warning", "FailedDelete", f"Error deleting: {error}")
            raise
        self._recorder.event(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {metadata['name']}")
        return True


async def mark_and_delete(
    client: APIClient,
    clock: Clock,
    pod: Object,
    reason: str,
    message: str,
    features: DisruptionMarks,
    manager: str,
    *,
    observes: bool = True,
) -> None:
    """Writes the condition, then deletes the pod; raises 404 or 409 if it is gone or was replaced
    meanwhile.

    `observes`: the condition has the pod's generation, if the gate is on.
    """
    condition: Object = {"type": _TARGET, "status": "True", "reason": reason, "message": message}
    if observes:
        condition |= observed(pod, features)
    before = find_condition(pod, _TARGET) or {}
    if features.marks_pods and any(before.get(field) != value for field, value in condition.items()):
        same = before.get("status") == "True"
        time = before.get("lastTransitionTime") if same else timestamp(clock.now())
        status = {"conditions": [{**condition, "lastTransitionTime": time}]}
        await write_status(client, pod, status, features, manager)
    metadata = pod["metadata"]
    await client.delete(PODS, metadata["name"], metadata["namespace"], preconditions={"uid": metadata["uid"]})


def observed(pod: Object, features: DisruptionMarks) -> Object:
    """Returns the pod's generation as a condition has it (CalculatePodConditionObservedGeneration)."""
    generation = pod["metadata"].get("generation")
    return {"observedGeneration": generation} if features.observed_generation and generation else {}


async def write_status(
    client: APIClient, pod: Object, status: Object, features: DisruptionMarks, manager: str
) -> None:
    """Merges `status` into the pod's, as field manager `manager` if it is applied.

    An apply is forced, and has no precondition on the pod's uid.
    """
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    if features.applied:
        wanted = {"metadata": {"name": name, "namespace": namespace}, "status": status}
        await client.apply(PODS, wanted, field_manager=manager, force=True, subresource="status")
        return
    patch = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
    await client.patch(PODS, name, namespace, patch, STRATEGIC_PATCH, subresource="status")
