"""The interface that users of plugins implement for the plugin manager (pluginmanager/cache,
PluginHandler)."""

from collections.abc import Sequence
from typing import Protocol


class PluginRefusedError(Exception):
    """The plugin cannot be used; the text is what it is told."""


class PluginHandler(Protocol):
    """Uses the plugins of one type. All of a plugin's registration is known by its name and endpoint."""

    def validate(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """Raises PluginRefusedError. `endpoint` is the socket of the plugin's service."""
        ...

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """Begin to use it. Raises PluginRefusedError."""
        ...

    async def deregister(self, name: str, endpoint: str) -> None:
        """It is gone; one that was never registered is none of our business."""
        ...
