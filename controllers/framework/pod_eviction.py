"""Deletes pods as controllers do, after a condition in the status that says why.

Source: k8s.io/kubernetes/pkg/controller/tainteviction (addConditionAndDeletePod), 1.36.
"""

from kubeskew.apimachinery.client.refs import PODS
from kubeskew.apimachinery.client.rest import STRATEGIC_PATCH, APIClient
from kubeskew.apimachinery.clock import Clock, timestamp
from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.objects import Object

_TARGET = "DisruptionTarget"


async def mark_and_delete(client: APIClient, clock: Clock, pod: Object, reason: str, message: str) -> None:
    """Writes the condition, then deletes the pod; raises 404 or 409 if it is gone or was replaced
    meanwhile."""
    metadata, uid = pod["metadata"], pod["metadata"]["uid"]
    name, namespace = metadata["name"], metadata["namespace"]
    condition = {"type": _TARGET, "status": "True", "reason": reason, "message": message}
    before = find_condition(pod, _TARGET) or {}
    if any(before.get(field) != value for field, value in condition.items()):
        same = before.get("status") == "True"
        time = before.get("lastTransitionTime") if same else timestamp(clock.now())
        patch = {
            "metadata": {"uid": uid},
            "status": {"conditions": [{**condition, "lastTransitionTime": time}]},
        }
        await client.patch(PODS, name, namespace, patch, STRATEGIC_PATCH, subresource="status")
    await client.delete(PODS, name, namespace, preconditions={"uid": uid})
