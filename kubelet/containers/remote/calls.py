"""The calls of a kubelet to its container runtime, with upstream's timeouts and the check of its first call.

Source: k8s.io/cri-client/pkg/remote_runtime.go, util/util_unix.go, and newKubeGenericRuntimeManager in
pkg/kubelet/kuberuntime/kuberuntime_manager.go, 1.31 to 1.36.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kubeskew.kubelet.containers.runtime_service import ContainerRuntimeError
from kubeskew.kubelet.protocols import cri
from kubeskew.kubelet.protocols.grpc_calls import RpcError, channel_to
from kubeskew.kubelet.protocols.messages import cri_v1_pb2 as messages

_EXAMPLE = "unix:///run/containerd/containerd.sock"
API_VERSION = "0.1.0"  # kubeRuntimeAPIVersion
SECONDS = 120.0  # runtimeRequestTimeout
_SANDBOX_SECONDS = 2 * SECONDS
_ASKED_SECONDS = 10.0  # before a kubelet is started at all
_PULL_SECONDS = None  # pulls end by themselves
_REQUIRED = ("version", "runtime_name", "runtime_api_version", "runtime_version")
_SHOWN = {"version": "Version", "runtime_name": "RuntimeName", "runtime_version": "RuntimeVersion",
          "runtime_api_version": "RuntimeApiVersion"}  # fmt: skip


def socket_of(endpoint: str) -> Path:
    """The path of an endpoint's socket. Raises ContainerRuntimeError."""
    parts = urlsplit(endpoint if "://" in endpoint else f"unix://{endpoint}")
    if parts.scheme == "tcp":
        raise ContainerRuntimeError("only support unix socket endpoint")
    if parts.scheme != "unix":
        raise ContainerRuntimeError(f'protocol "{parts.scheme}" not supported')
    if parts.netloc or not parts.path.startswith("/"):
        raise ContainerRuntimeError(f"{endpoint} is no URL such as {_EXAMPLE}")
    return Path(parts.path)


class RuntimeCalls:
    """Calls the methods of both services by their names."""

    def __init__(self, endpoint: str) -> None:
        """Raises ContainerRuntimeError for an endpoint that is none."""
        self.endpoint = endpoint
        self._channel = channel_to(socket_of(endpoint))

    async def call(self, verb: str, request: Any, seconds: float | None = SECONDS) -> Any:
        """Raises RpcError."""
        method = cri.RUNTIME_METHODS.get(verb) or cri.IMAGE_METHODS[verb]
        limit = _LIMITS.get(verb, seconds)
        return await method.call(self._channel, request, timeout=limit)

    def events(self) -> AsyncIterator[messages.ContainerEventResponse]:
        """Yields what happens to containers from now on. Raises RpcError when the stream breaks."""
        return cri.CONTAINER_EVENTS.call(self._channel, messages.GetEventsRequest())

    async def check(self, seconds: float = SECONDS) -> messages.VersionResponse:
        """Makes a kubelet's first call. Raises ContainerRuntimeError in the words with which one ends."""
        try:
            request = messages.VersionRequest(version=API_VERSION)
            version: messages.VersionResponse = await self.call("Version", request, seconds)
        except RpcError as error:
            where = f'validate CRI v1 runtime API for endpoint "{self.endpoint}"'
            raise ContainerRuntimeError(f"validate service connection: {where}: {error}") from error
        missing = [_SHOWN[name] for name in _REQUIRED if not getattr(version, name)]
        if missing:
            what = f"not all fields are set in VersionResponse (missing {', '.join(missing)})"
            raise ContainerRuntimeError(f"get remote runtime typed version failed: {what}")
        if version.version != API_VERSION:
            raise ContainerRuntimeError("runtime api version is not supported")
        return version

    async def close(self) -> None:
        await self._channel.close()


_LIMITS = {"RunPodSandbox": _SANDBOX_SECONDS, "PullImage": _PULL_SECONDS}


async def endpoint_obstacle(endpoint: str) -> str:
    """Says why no kubelet can run its pods at an endpoint; empty if one can."""
    try:
        calls = RuntimeCalls(endpoint)
        try:
            await calls.check(_ASKED_SECONDS)
        finally:
            await calls.close()
    except ContainerRuntimeError as error:
        return str(error)
    return ""
