"""A driver behind a socket: calls of its gRPC service, in the version that was chosen at its registration."""

from collections.abc import Mapping, Sequence
from typing import Any

from kubeskew.apimachinery.clock import Clock
from kubeskew.kubelet.dra.plugin import ClaimFailed, ClaimRef, PluginError, PreparedDevice
from kubeskew.kubelet.dra.plugin_connection import PluginConnection
from kubeskew.kubelet.metrics import KubeletMetrics
from kubeskew.kubelet.protocols import dra
from kubeskew.kubelet.protocols.calling import Unary
from kubeskew.kubelet.protocols.errors import RpcError

CALL_SECONDS = 45.0  # defaultClientCallTimeout


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
        super().__init__(driver, endpoint)
        self.service = service
        self._service = dra.REGISTERED[service]
        self._clock = clock
        self._metrics = metrics
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
        began, code = self._clock.monotonic(), "OK"
        try:
            return await method.call(self.channel, request, timeout=self._timeout)
        except RpcError as error:
            code = error.go_code
            raise PluginError(str(error)) from error
        finally:
            labels = (self.driver, method.path, code)
            seconds = self._clock.monotonic() - began
            self._metrics.dra_grpc_operations_duration.labels(*labels).observe(seconds)


def _prepared(device: Any) -> PreparedDevice:
    return PreparedDevice(
        pool=device.pool_name,
        device=device.device_name,
        requests=tuple(device.request_names),
        cdi_ids=tuple(device.cdi_device_ids),
        share_id=getattr(device, "share_id", ""),  # v1 alone has shares
    )
