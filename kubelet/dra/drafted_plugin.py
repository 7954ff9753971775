"""A resource plugin behind a socket, as the kubelet of KEP-3063's draft calls it."""

from collections.abc import Sequence
from typing import Any

from kubeskew.apimachinery.clock import Clock
from kubeskew.kubelet.dra.plugin import ClaimRef, PluginError
from kubeskew.kubelet.dra.plugin_connection import PluginConnection
from kubeskew.kubelet.metrics import KubeletMetrics
from kubeskew.kubelet.protocols import dra_drafted
from kubeskew.kubelet.protocols.calling import Unary
from kubeskew.kubelet.protocols.errors import RpcError

_NOT_FOUND = "NotFound"
_CALL_SECONDS = 45.0  # the draft gives no limit: this is that of later releases


class ResourceNotFoundError(PluginError):
    """The plugin does not know the claim: it may be called again, ever later."""


class DraftedSocketPlugin(PluginConnection):
    """Calls the plugin with the UID of a claim. `close` when it is no longer needed."""

    def __init__(
        self, driver: str, endpoint: str, service: str, clock: Clock, metrics: KubeletMetrics
    ) -> None:
        super().__init__(driver, endpoint)
        self.service = service
        self._clock = clock
        self._metrics = metrics

    async def prepare(self, uid: str) -> list[str]:
        """Returns the CDI device names of the claim. Raises PluginError."""
        answer = await self._call(dra_drafted.PREPARE, resource_uid=uid)
        return list(answer.cdi_device)

    async def unprepare(self, uid: str, cdi_ids: Sequence[str]) -> None:
        """Undoes `prepare`; may be called again. Raises PluginError."""
        await self._call(dra_drafted.UNPREPARE, resource_id=uid, cdi_device=list(cdi_ids))

    async def node_prepare_resources(self, claims: Sequence[ClaimRef]) -> Any:
        """Raises PluginError: this plugin takes one claim at a time."""
        raise PluginError("the plugin takes one claim at a time")

    async def node_unprepare_resources(self, claims: Sequence[ClaimRef]) -> Any:
        """Raises PluginError: this plugin takes one claim at a time."""
        raise PluginError("the plugin takes one claim at a time")

    async def _call(self, method: Unary[Any, Any], **fields: Any) -> Any:
        began, code = self._clock.monotonic(), "OK"
        try:
            return await method.call(self.channel, method.request(**fields), timeout=_CALL_SECONDS)
        except RpcError as error:
            code = error.go_code
            if code == _NOT_FOUND:
                raise ResourceNotFoundError(str(error)) from error
            raise PluginError(str(error)) from error
        finally:
            labels = (self.driver, method.path, code)
            seconds = self._clock.monotonic() - began
            self._metrics.dra_grpc_operations_duration.labels(*labels).observe(seconds)
