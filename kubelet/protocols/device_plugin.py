"""Device plugins `v1beta1`: the kubelet serves Registration, the plugin DevicePlugin."""

from kubeskew.kubelet.protocols.grpc_calls import Streaming, Unary
from kubeskew.kubelet.protocols.messages.device_plugin_v1beta1_pb2 import (
    AllocateRequest,
    AllocateResponse,
    DevicePluginOptions,
    Empty,
    ListAndWatchResponse,
    PreferredAllocationRequest,
    PreferredAllocationResponse,
    PreStartContainerRequest,
    PreStartContainerResponse,
    RegisterRequest,
)

__all__ = [
    "ALLOCATE", "GET_OPTIONS", "GET_PREFERRED_ALLOCATION", "HEALTHY", "LIST_AND_WATCH", "PLUGIN",
    "PRE_START_CONTAINER", "REGISTER", "REGISTRATION", "UNHEALTHY", "VERSION",
    "AllocateRequest", "AllocateResponse", "DevicePluginOptions", "Empty", "ListAndWatchResponse",
    "PreStartContainerRequest", "PreStartContainerResponse", "PreferredAllocationRequest",
    "PreferredAllocationResponse", "RegisterRequest",
]  # fmt: skip

VERSION = "v1beta1"
REGISTRATION = "v1beta1.Registration"
PLUGIN = "v1beta1.DevicePlugin"
HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"

REGISTER = Unary(REGISTRATION, "Register", RegisterRequest, Empty)
GET_OPTIONS = Unary(PLUGIN, "GetDevicePluginOptions", Empty, DevicePluginOptions)
LIST_AND_WATCH = Streaming(PLUGIN, "ListAndWatch", Empty, ListAndWatchResponse)
GET_PREFERRED_ALLOCATION = Unary(
    PLUGIN, "GetPreferredAllocation", PreferredAllocationRequest, PreferredAllocationResponse
)
ALLOCATE = Unary(PLUGIN, "Allocate", AllocateRequest, AllocateResponse)
PRE_START_CONTAINER = Unary(PLUGIN, "PreStartContainer", PreStartContainerRequest, PreStartContainerResponse)
