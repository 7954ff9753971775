"""Deletes pods as controllers do, after a condition in the status that says why.

Source: k8s.io/kubernetes/pkg/controller/tainteviction (addConditionAndDeletePod), 1.36.
"""

from kubeskew.apimachinery.client.refs import PODS
from kubeskew.apimachinery.client.rest import STRATEGIC_PATCH, APIClient
from kubeskew.apimachinery.clock import Clock, timestamp
from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework.features import DisruptionMarks

_TARGET = "DisruptionTarget"


async def mark_and_delete(
    client: APIClient,
    clock: Clock,
    pod: Object,
    reason: str,
    message: str,
    features: DisruptionMarks,
    manager: str,
) -> None:
    """Writes the condition, then deletes the pod; raises 404 or 409 if it is gone or was replaced
    meanwhile.
    """
    condition = {"type": _TARGET, "status": "True", "reason": reason, "message": message}
    before = find_condition(pod, _TARGET) or {}
    if features.told and any(before.get(field) != value for field, value in condition.items()):
        same = before.get("status") == "True"
        time = before.get("lastTransitionTime") if same else timestamp(clock.now())
        status = {"conditions": [{**condition, "lastTransitionTime": time}]}
        await write_status(client, pod, status, features, manager)
    metadata = pod["metadata"]
    await client.delete(PODS, metadata["name"], metadata["namespace"], preconditions={"uid": metadata["uid"]})


async def write_status(
    client: APIClient, pod: Object, status: Object, features: DisruptionMarks, manager: str
) -> None:
    """Writes what the status is to have beside what it has, as the field manager `manager` if it is applied.

    An apply is forced, and says nothing of the pod's uid.
    """
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    if features.applied:
        wanted = {"metadata": {"name": name, "namespace": namespace}, "status": status}
        await client.apply(PODS, wanted, field_manager=manager, force=True, subresource="status")
        return
    patch = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
    await client.patch(PODS, name, namespace, patch, STRATEGIC_PATCH, subresource="status")
