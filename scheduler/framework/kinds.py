"""Groups pods that are alike: until a node changes, it answers all of a kind as it answered the first.

Upstream has the same idea for batches of pods (SignPod, KEP-5598, 1.35).
"""

from collections.abc import Callable, Hashable
from typing import TypeVar

from kubeskew.scheduler.framework.node_info import NodeInfo

T = TypeVar("T")

_MOST_KINDS = 1000  # kinds at a time
_MOST_ANSWERS = 1000  # answers that a node keeps


class Kinds:
    """One object for all equal signs: finding a node's answers by identity is cheaper than by the signs'
    contents."""

    def __init__(self) -> None:
        self._known: dict[Hashable, object] = {}

    def of(self, sign: Hashable) -> object:
        known = self._known.get(sign)
        if known is None:
            if len(self._known) >= _MOST_KINDS:
                self._known.clear()
            known = self._known[sign] = object()
        return known


def remembered(node: NodeInfo, kind: object, ask: Callable[[], T]) -> T:
    """Returns what `ask` answered for such a pod since the node last changed."""
    found: T | None = node.memo.get(kind)
    if found is None:
        if len(node.memo) >= _MOST_ANSWERS:
            node.memo.clear()
        found = node.memo[kind] = ask()
    return found
