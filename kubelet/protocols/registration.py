"""`pluginregistration.Registration`: the plugin serves it on a socket in the registry."""

from kubeskew.kubelet.protocols.grpc_calls import Unary
from kubeskew.kubelet.protocols.messages.plugin_registration_v1_pb2 import (
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)

__all__ = [
    "CSI_PLUGIN", "DEVICE_PLUGIN", "DRA_PLUGIN", "GET_INFO", "NOTIFY", "SERVICE",
    "InfoRequest", "PluginInfo", "RegistrationStatus", "RegistrationStatusResponse",
]  # fmt: skip

SERVICE = "pluginregistration.Registration"
DRA_PLUGIN = "DRAPlugin"
DEVICE_PLUGIN = "DevicePlugin"
CSI_PLUGIN = "CSIPlugin"

GET_INFO = Unary(SERVICE, "GetInfo", InfoRequest, PluginInfo)
NOTIFY = Unary(SERVICE, "NotifyRegistrationStatus", RegistrationStatus, RegistrationStatusResponse)
