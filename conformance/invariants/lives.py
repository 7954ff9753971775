"""Keeps when pods came and went, as the log tells it."""

from datetime import datetime

from kubeskew.apimachinery.objects import ObjectView
from kubeskew.conformance.invariants.cluster import Change, Place, uid_of


class PodLives:
    """Holds how long pods were there, and when the last one of a name went."""

    def __init__(self) -> None:
        self._came: dict[str, datetime] = {}
        self._lasted: dict[str, float] = {}
        self._left: dict[Place, datetime] = {}  # by the last one's name

    def see(self, change: Change) -> None:
        write = change.write
        if write.resource != "pods":
            return
        time, uid = datetime.fromisoformat(write.time), uid_of(write.value)
        came = self._came.setdefault(uid, time)
        if change.now is None:
            self._lasted[uid] = (time - came).total_seconds()
            self._left[write.namespace, write.name] = time

    def lasted(self, uid: str) -> str:
        """Says how long a pod was there that has gone: `, 0.1 s after it was created`; nothing of others."""
        seconds = self._lasted.get(uid)
        return "" if seconds is None else f", {seconds:.1f} s after it was created"

    def former(self, pod: ObjectView, time: str) -> str:
        """Says how long before a time a former pod of the same name went; nothing if there was none."""
        metadata = pod["metadata"]
        left = self._left.get((metadata.get("namespace") or "", metadata["name"]))
        if left is None:
            return ""
        seconds = (datetime.fromisoformat(time) - left).total_seconds()
        return f"; a former Pod of its name went {seconds:.1f} s before"
