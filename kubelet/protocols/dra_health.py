"""`DRAResourceHealth`: a DRA driver's stream of its devices' health; all versions have the same messages."""

from dataclasses import dataclass
from types import ModuleType
from typing import Any

from kubeskew.kubelet.protocols.calling import Streaming
from kubeskew.kubelet.protocols.messages import dra_health_v1_pb2, dra_health_v1alpha1_pb2


@dataclass(frozen=True)
class HealthService:
    """One version: the service's full name, its messages and its one method."""

    name: str
    messages: ModuleType
    watch: Streaming[Any, Any]


def _service(package: str, messages: ModuleType) -> HealthService:
    name = f"{package}.DRAResourceHealth"
    request, response = messages.NodeWatchResourcesRequest, messages.NodeWatchResourcesResponse
    return HealthService(name, messages, Streaming(name, "NodeWatchResources", request, response))


V1 = _service("v1", dra_health_v1_pb2)
V1ALPHA1 = _service("v1alpha1", dra_health_v1alpha1_pb2)

VERSIONS = {"v1": V1, "v1alpha1": V1ALPHA1}
