"""The connection to a driver's socket, which every version of the plugin's calls shares."""

import logging
from collections.abc import Callable

from kubeskew.kubelet.protocols.calling import channel_to
from kubeskew.kubelet.protocols.message_sockets import Channel

log = logging.getLogger(__name__)


class PluginConnection:
    """Holds the channel to a driver, and whether it is connected. `close` when it is no longer needed."""

    def __init__(self, driver: str, endpoint: str) -> None:
        self.driver = driver
        self.endpoint = endpoint
        self.connected = False
        self.channel: Channel = channel_to(endpoint)

    async def follow_connection(self, changed: Callable[[], None]) -> None:
        """Keeps connecting, and calls `changed` when `connected` changes, until cancelled."""
        async for connected in self.channel.connection_changes():
            if connected != self.connected:
                log.info("driver %s at %s: connected: %s", self.driver, self.endpoint, connected)
                self.connected = connected
                changed()

    async def close(self) -> None:
        await self.channel.close()
