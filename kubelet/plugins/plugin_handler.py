"""The interface of the users of plugins, for the plugin manager (pluginmanager/cache, PluginHandler)."""

from collections.abc import Sequence
from typing import Protocol


class PluginRefusedError(Exception):
    """The plugin cannot be used; the text is sent to it."""


class PluginHandler(Protocol):
    """Uses the plugins of one type. A registration is identified by name and endpoint."""

    def validate(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """Raises PluginRefusedError. `endpoint` is the socket of the plugin's service."""
        ...

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """Begins to use the plugin. Raises PluginRefusedError."""
        ...

    async def deregister(self, name: str, endpoint: str) -> None:
        """Stops using a plugin that is gone; ignores one that was never registered."""
        ...
