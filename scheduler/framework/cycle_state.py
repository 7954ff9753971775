"""Holds what plugins remember from one extension point to the next, for one attempt at one pod."""

from typing import Any, Protocol, Self, runtime_checkable


@runtime_checkable
class Cloneable(Protocol):
    """A value that adding or removing a pod changes."""

    def clone(self) -> Self: ...


@runtime_checkable
class Forkable(Protocol):
    """A value whose changes can be undone together: those since the last `fork` that has not ended yet."""

    def fork(self) -> None:
        """Begins changes that `revert` undoes and `commit` keeps."""
        ...

    def revert(self) -> None: ...

    def commit(self) -> None: ...


class CycleState:
    """Values by plugin name, and the plugins that have nothing to do in this cycle."""

    __slots__ = ("_values", "recorded", "skip_filter", "skip_score", "stopped_at")

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()
        self.stopped_at = ""  # the plugin at which PreFilter ended: those behind it have written nothing
        self.recorded = False  # whether this cycle measures the time of each plugin

    def write(self, plugin: str, value: Any) -> None:
        self._values[plugin] = value

    def clone(self) -> "CycleState":
        """Returns a copy to try changes on: values that can be cloned are, the others are shared."""
        copy = CycleState()
        copy._values = {
            name: value.clone() if isinstance(value, Cloneable) else value
            for name, value in self._values.items()
        }
        copy.skip_filter, copy.skip_score = self.skip_filter, self.skip_score
        copy.stopped_at = self.stopped_at
        return copy

    def read(self, plugin: str) -> Any:
        """Returns what the plugin wrote earlier in this cycle; None if nothing."""
        return self._values.get(plugin)

    def attempt(self) -> "CycleState":
        """Returns a state with the same values for one attempt at a pod; what is written stays in it."""
        copy = CycleState()
        copy._values = {**self._values}
        return copy

    def forkable(self) -> list[Forkable]:
        """Returns the values whose changes can be undone."""
        return [value for value in self._values.values() if isinstance(value, Forkable)]
