"""The services of a container runtime, CRI v1, as kubelets of 1.31 … 1.37 call them.

Source: k8s.io/cri-api/pkg/apis/runtime/v1/api.proto, 1.36.
"""

from typing import Any

from kubeskew.kubelet.protocols.grpc_calls import Streaming, Unary
from kubeskew.kubelet.protocols.messages import cri_v1_pb2 as messages

RUNTIME, IMAGES = "runtime.v1.RuntimeService", "runtime.v1.ImageService"


def _unary(service: str, verb: str) -> Unary[Any, Any]:
    return Unary(service, verb, getattr(messages, f"{verb}Request"), getattr(messages, f"{verb}Response"))


RUNTIME_METHODS = {
    verb: _unary(RUNTIME, verb)
    for verb in (
        "Version", "Status", "RuntimeConfig", "UpdateRuntimeConfig",
        "RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "PodSandboxStatus", "ListPodSandbox",
        "CreateContainer", "StartContainer", "StopContainer", "RemoveContainer", "ContainerStatus",
        "ListContainers", "UpdateContainerResources", "UpdatePodSandboxResources", "ReopenContainerLog",
        "ExecSync", "Exec", "Attach", "PortForward",
        "ContainerStats", "ListContainerStats", "PodSandboxStats", "ListPodSandboxStats",
        "ListMetricDescriptors", "ListPodSandboxMetrics",
    )
}  # fmt: skip
IMAGE_METHODS = {
    verb: _unary(IMAGES, verb)
    for verb in ("ListImages", "ImageStatus", "PullImage", "RemoveImage", "ImageFsInfo")
}
CONTAINER_EVENTS: Streaming[Any, Any] = Streaming(
    RUNTIME, "GetContainerEvents", messages.GetEventsRequest, messages.ContainerEventResponse
)
