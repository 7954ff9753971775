"""Undoes changes that were made for a simulation."""

from collections.abc import Callable


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
