"""DefaultBinder: binds through the pod's `binding` subresource."""

from kubeskew.apimachinery.client.refs import PODS
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.errors import StatusError
from kubeskew.scheduler.framework.interfaces import CycleState
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import SUCCESS, Status, failed

NAME = "DefaultBinder"


class DefaultBinder:
    name = NAME

    def __init__(self, client: APIClient) -> None:
        self._client = client

    async def bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "target": {"kind": "Node", "name": node},
        }
        try:
            await self._client.create(PODS, binding, pod.namespace, name=pod.name, subresource="binding")
        except (StatusError, *CONNECTION_ERRORS) as error:
            return failed(error)
        return SUCCESS
