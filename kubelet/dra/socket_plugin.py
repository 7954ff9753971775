"""A driver behind a socket: its connection, and calls of its gRPC service in one version.

The version is chosen at the driver's registration.

Faults make calls fail: they are lost, late, or the last thing that the kubelet does.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import grpc

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.faults.fault import PLUGINS, Call
from kubeskew.apimachinery.faults.injector import Injector
from kubeskew.kubelet.dra.plugin import PREPARE, UNPREPARE, ClaimFailed, ClaimRef, PluginError, PreparedDevice
from kubeskew.kubelet.metrics import KubeletMetrics
from kubeskew.kubelet.protocols import dra
from kubeskew.kubelet.protocols.grpc_calls import RpcError, Unary, channel_to
from kubeskew.kubelet.protocols.message_sockets import Channel, ForwardingChannel

log = logging.getLogger(__name__)
CALL_SECONDS = 45.0  # defaultClientCallTimeout
# Before 1.31 the calls are of one claim.
_VERBS = {name: verb for verb in (PREPARE, UNPREPARE) for name in (verb, verb.removesuffix("s"))}


class PluginConnection:
    """Holds the channel to a driver, and whether it is connected. `close` when it is no longer needed."""

    def __init__(self, driver: str, endpoint: str, clock: Clock, metrics: KubeletMetrics) -> None:
        self.driver = driver
        self.endpoint = endpoint
        self.connected = False
        self.channel: Channel = channel_to(endpoint)
        self._clock = clock
        self._metrics = metrics

    async def call(self, method: Unary[Any, Any], request: Any, timeout: float | None) -> Any:
        """Counts the call in the kubelet's metrics. Raises RpcError."""
        began, code = self._clock.monotonic(), "OK"
        try:
            return await method.call(self.channel, request, timeout=timeout)
        except RpcError as error:
            code = error.go_code
            raise
        finally:
            labels = (self.driver, method.path, code)
            seconds = self._clock.monotonic() - began
            self._metrics.dra_grpc_operations_duration.labels(*labels).observe(seconds)

    async def follow_connection(self, changed: Callable[[], None]) -> None:
        """Keeps connecting, and calls `changed` when `connected` changes, until cancelled."""
        async for connected in self.channel.connection_changes():
            if connected != self.connected:
                log.info("driver %s at %s: connected: %s", self.driver, self.endpoint, connected)
                self.connected = connected
                changed()

    async def close(self) -> None:
        await self.channel.close()


class SocketPlugin(PluginConnection):
    """Implements `DRAPlugin`. `close` when it is no longer needed."""

    def __init__(
        self,
        driver: str,
        endpoint: str,
        service: str,
        clock: Clock,
        metrics: KubeletMetrics,
        *,
        timeout: float = CALL_SECONDS,
    ) -> None:
        """`service` is a key of `dra.REGISTERED`."""
        super().__init__(driver, endpoint, clock, metrics)
        self.service = service
        self._service = dra.REGISTERED[service]
        self._timeout = timeout

    async def node_prepare_resources(
        self, claims: Sequence[ClaimRef]
    ) -> Mapping[str, Sequence[PreparedDevice] | ClaimFailed]:
        answer = await self._call(self._service.prepare, claims)
        return {
            uid: ClaimFailed(claim.error) if claim.error else [_prepared(device) for device in claim.devices]
            for uid, claim in answer.claims.items()
        }

    async def node_unprepare_resources(self, claims: Sequence[ClaimRef]) -> Mapping[str, ClaimFailed | None]:
        answer = await self._call(self._service.unprepare, claims)
        return {
            uid: ClaimFailed(claim.error) if claim.error else None for uid, claim in answer.claims.items()
        }

    async def _call(self, method: Unary[Any, Any], claims: Sequence[ClaimRef]) -> Any:
        request = method.request(claims=[{**claim._asdict()} for claim in claims])
        try:
            return await self.call(method, request, self._timeout)
        except RpcError as error:
            raise PluginError(str(error)) from error


def _prepared(device: Any) -> PreparedDevice:
    return PreparedDevice(
        pool=device.pool_name,
        device=device.device_name,
        requests=tuple(device.request_names),
        cdi_ids=tuple(device.cdi_device_ids),
        share_id=getattr(device, "share_id", ""),  # v1 alone has shares
    )


class FaultyChannel(ForwardingChannel):
    """A channel to a driver's plugin, of any service, with the faults of the kubelet in front of it."""

    def __init__(self, channel: Channel, driver: str, injector: Injector) -> None:
        super().__init__(channel)
        self._driver = driver
        self._injector = injector

    async def call(self, path: str, request: bytes, timeout: float | None) -> bytes:
        """Calls the plugin; raises RpcError for a call or an answer that is lost."""
        verb = _VERBS.get(path.rpartition("/")[2])
        if verb is None:
            return await super().call(path, request, timeout)
        try:
            return await self._injector.inject_local(
                Call(verb, PLUGINS, name=self._driver), lambda: self._channel.call(path, request, timeout)
            )
        except ConnectionError as error:
            raise RpcError(grpc.StatusCode.UNAVAILABLE, f"error reading from server: {error}") from error
