"""The framework's part in simulations: a log to undo changes, and the name of the node whose slices a
fictional node uses (KEP-4381 as drafted: Simulation with CA).
"""

from collections.abc import Callable

from kubeskew.apimachinery.objects import Object

NODE_RESOURCE_SLICES = "autoscaling.k8s.io/node-resource-slices"


class UndoLog:
    """Notes how to undo changes: those since the last `fork` that has not ended yet."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._marks: list[int] = []

    def undo_by(self, undo: Callable[[], None]) -> None:
        """Notes a change that was just made; outside of a fork it stays."""
        if self._marks:
            self._undo.append(undo)

    def fork(self) -> None:
        self._marks.append(len(self._undo))

    def revert(self) -> None:
        """Undoes the changes since the last fork, the newest first."""
        mark = self._marks.pop()
        while len(self._undo) > mark:
            self._undo.pop()()

    def commit(self) -> None:
        """Keeps the changes since the last fork; they are the outer one's from now on."""
        self._marks.pop()
        if not self._marks:
            self._undo.clear()


def slices_node(node: Object | None) -> str:
    """Empty for real nodes, which use their own slices."""
    found = ((node or {}).get("metadata") or {}).get("annotations") or {}
    return str(found.get(NODE_RESOURCE_SLICES) or "")


def copied_name(name: str, node: str) -> str:
    """Name of a slice or pool that a fictional node has from another one.

    No name of a node has a slash, so that no two copies get the same name.
    """
    return f"{name}/{node}"
