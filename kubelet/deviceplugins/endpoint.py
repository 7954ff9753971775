"""One registered device plugin, as the manager calls it (pkg/kubelet/cm/devicemanager/endpoint.go)."""

from collections.abc import Collection

from kubeskew.apimachinery.clock import Clock
from kubeskew.kubelet.protocols import device_plugin
from kubeskew.kubelet.protocols.device_plugin import (
    AllocateRequest,
    AllocateResponse,
    DevicePluginOptions,
    PreferredAllocationRequest,
    PreStartContainerRequest,
)
from kubeskew.kubelet.protocols.message_sockets import Channel

GRACE_SECONDS = 300.0  # endpointStopGracePeriod
_PRE_START_SECONDS = 30.0  # KubeletPreStartContainerRPCTimeoutInSecs


class EndpointStoppedError(Exception):
    """The plugin is gone."""


class Endpoint:
    """A plugin of one resource. Without a channel it stands for one that has not registered again yet."""

    def __init__(
        self,
        resource: str,
        clock: Clock,
        channel: Channel | None = None,
        options: DevicePluginOptions | None = None,
    ) -> None:
        self._resource = resource
        self._clock = clock
        self._channel = channel
        self._options = options
        self._stopped_at = None if channel is not None else clock.monotonic()

    @property
    def prefers(self) -> bool:
        """Returns whether the plugin has GetPreferredAllocation."""
        return self._options is not None and self._options.get_preferred_allocation_available

    @property
    def starts(self) -> bool:
        """Returns whether the plugin has PreStartContainer."""
        return self._options is not None and self._options.pre_start_required

    def stop(self) -> None:
        self._stopped_at = self._clock.monotonic()

    def grace_expired(self) -> bool:
        """Returns whether the plugin has been gone for so long that its resource is forgotten."""
        return self._stopped_at is not None and self._clock.monotonic() - self._stopped_at > GRACE_SECONDS

    # Upstream's calls, but for the last, have no timeout. They raise RpcError or EndpointStoppedError.

    async def preferred(self, available: Collection[str], included: Collection[str], size: int) -> list[str]:
        """Asks the plugin which of the available devices it prefers; it may name too few, or others."""
        request = PreferredAllocationRequest()
        request.container_requests.add(
            available_deviceIDs=sorted(available),
            must_include_deviceIDs=sorted(included),
            allocation_size=size,
        )
        answer = await device_plugin.GET_PREFERRED_ALLOCATION.call(self._live(), request)
        return list(answer.container_responses[0].deviceIDs) if answer.container_responses else []

    async def allocate(self, devices: Collection[str]) -> AllocateResponse:
        request = AllocateRequest()
        request.container_requests.add(devices_ids=sorted(devices))
        return await device_plugin.ALLOCATE.call(self._live(), request)

    async def pre_start(self, devices: Collection[str]) -> None:
        request = PreStartContainerRequest(devices_ids=sorted(devices))
        await device_plugin.PRE_START_CONTAINER.call(self._live(), request, timeout=_PRE_START_SECONDS)

    def _live(self) -> Channel:
        if self._stopped_at is not None or self._channel is None:
            raise EndpointStoppedError(f"endpoint {self._resource} has been stopped")
        return self._channel
