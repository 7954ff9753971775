"""What plugins remember from one extension point to the next, for one attempt at one pod."""

from typing import Any


class CycleState:
    """Values by plugin name, and the plugins that have nothing to do in this cycle."""

    __slots__ = ("_values", "skip_filter", "skip_score")

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()

    def write(self, plugin: str, value: Any) -> None:
        self._values[plugin] = value

    def read(self, plugin: str) -> Any:
        """What the plugin wrote earlier in this cycle; None if nothing."""
        return self._values.get(plugin)
