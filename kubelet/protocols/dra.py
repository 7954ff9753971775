"""The services of a DRA driver on a node, in the versions that kubelets of 1.31 … 1.37 call.

The messages of the versions have the same fields; `messages` is the module that has them. `DRAResourceHealth`
is a driver's stream of its devices' health.
"""

from dataclasses import dataclass
from types import ModuleType
from typing import Any

from kubeskew.kubelet.protocols.grpc_calls import Streaming, Unary
from kubeskew.kubelet.protocols.messages import (
    dra_health_v1_pb2,
    dra_health_v1alpha1_pb2,
    dra_v1_pb2,
    dra_v1alpha4_pb2,
    dra_v1beta1_pb2,
)


@dataclass(frozen=True)
class DraService:
    """One version: the service's full name, its messages and its two methods."""

    name: str
    messages: ModuleType
    prepare: Unary[Any, Any]
    unprepare: Unary[Any, Any]


def _service(name: str, messages: ModuleType) -> DraService:
    def method(verb: str) -> Unary[Any, Any]:
        request, response = f"{verb}Request", f"{verb}Response"
        return Unary(name, verb, getattr(messages, request), getattr(messages, response))

    return DraService(name, messages, method("NodePrepareResources"), method("NodeUnprepareResources"))


V1 = _service("k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin", dra_v1_pb2)
V1BETA1 = _service("k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin", dra_v1beta1_pb2)
V1ALPHA4 = _service("v1alpha3.Node", dra_v1alpha4_pb2)

# The text that a driver writes into `supported_versions`; `1.0.0` and other plain versions mean V1ALPHA4
# registration.go of 1.32).
REGISTERED = {"v1.DRAPlugin": V1, "v1beta1.DRAPlugin": V1BETA1, "v1alpha3.Node": V1ALPHA4}


@dataclass(frozen=True)
class HealthService:
    """One version: the service's full name, its messages and its one method."""

    name: str
    messages: ModuleType
    watch: Streaming[Any, Any]


def _health_service(package: str, messages: ModuleType) -> HealthService:
    name = f"{package}.DRAResourceHealth"
    request, response = messages.NodeWatchResourcesRequest, messages.NodeWatchResourcesResponse
    return HealthService(name, messages, Streaming(name, "NodeWatchResources", request, response))


HEALTH_V1 = _health_service("v1", dra_health_v1_pb2)
HEALTH_V1ALPHA1 = _health_service("v1alpha1", dra_health_v1alpha1_pb2)

HEALTH_VERSIONS = {"v1": HEALTH_V1, "v1alpha1": HEALTH_V1ALPHA1}
