"""Has a kubelet's calls of drivers fail as its faults say: lost, late, or the last thing that it does."""

import grpc

from kubeskew.apimachinery.faults.calls import PLUGINS, Call
from kubeskew.apimachinery.faults.injecting import Injector
from kubeskew.kubelet.dra.plugin import PREPARE, UNPREPARE
from kubeskew.kubelet.protocols.errors import RpcError
from kubeskew.kubelet.protocols.forwarding import ForwardingChannel
from kubeskew.kubelet.protocols.message_sockets import Channel

# Before 1.31 the calls are of one claim.
_VERBS = {name: verb for verb in (PREPARE, UNPREPARE) for name in (verb, verb.removesuffix("s"))}


class FaultyChannel(ForwardingChannel):
    """A channel to a driver's plugin with the faults of the kubelet in front of it, whatever service it
    speaks.
    """

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
