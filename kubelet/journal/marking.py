"""Marks in a node's journal that a plugin is about to be called."""

from kubeskew.kubelet.files import StateFiles
from kubeskew.kubelet.protocols.forwarding import ForwardingChannel
from kubeskew.kubelet.protocols.message_sockets import Channel


class MarkedChannel(ForwardingChannel):
    """A channel to a plugin. Each call is marked, for the plugin knows fewer revisions than the kubelet."""

    def __init__(self, channel: Channel, files: StateFiles) -> None:
        super().__init__(channel)
        self._files = files

    async def call(self, path: str, request: bytes, timeout: float | None) -> bytes:
        self._files.mark()
        return await super().call(path, request, timeout)
