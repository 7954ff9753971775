"""Groups pods of one signature: until a node changes, it answers all of them as it answered the first.

Upstream has the same idea for batches of pods (SignPod, KEP-5598, 1.35).
"""

from collections.abc import Callable, Hashable
from typing import TypeVar

from kubeskew.scheduler.framework.node_info import NodeInfo

T = TypeVar("T")

_MOST_SIGNATURES = 1000  # at a time
_MOST_ANSWERS = 1000  # answers that a node keeps


class PodSignatures:
    """Holds one object for all equal signatures: a node's answers are found by identity, which is cheaper."""

    def __init__(self) -> None:
        self._known: dict[Hashable, object] = {}

    def of(self, signature: Hashable) -> object:
        known = self._known.get(signature)
        if known is None:
            if len(self._known) >= _MOST_SIGNATURES:
                self._known.clear()
            known = self._known[signature] = object()
        return known


def remembered(node: NodeInfo, signature: object, ask: Callable[[], T]) -> T:
    """Returns what `ask` answered for such a pod since the node last changed."""
    found: T | None = node.memo.get(signature)
    if found is None:
        if len(node.memo) >= _MOST_ANSWERS:
            node.memo.clear()
        found = node.memo[signature] = ask()
    return found
