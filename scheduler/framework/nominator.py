"""The pods nominated to nodes: preemption frees resources for them that others must not take.

Source: k8s.io/kubernetes/pkg/scheduler/backend/queue/nominator.go, 1.36.
"""

from collections.abc import Collection

from kubeskew.scheduler.framework.pod_info import PodInfo


class Nominator:
    """The nominated pods of each node."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, PodInfo]] = {}
        self._nodes: dict[str, str] = {}  # pod uid → node

    def __bool__(self) -> bool:
        return bool(self._nodes)

    def add(self, pod: PodInfo, node: str | None = None) -> None:
        """Nominates the pod to `node`; by default to the node in its status. "" ends the nomination."""
        if node is None:
            node = (pod.pod.get("status") or {}).get("nominatedNodeName") or ""
        self.remove(pod.uid)
        if node:
            self._nodes[pod.uid] = node
            self._by_node.setdefault(node, {})[pod.uid] = pod

    def update(self, old_node: str, pod: PodInfo) -> None:
        """Replaces the pod by a newer version whose old status named `old_node`; a nomination not yet
        written there stays."""
        now = (pod.pod.get("status") or {}).get("nominatedNodeName") or ""
        kept = self._nodes.get(pod.uid) if not now and not old_node else None
        self.add(pod, kept)

    def remove(self, uid: str) -> None:
        node = self._nodes.pop(uid, None)
        if node is not None:
            del self._by_node[node][uid]
            if not self._by_node[node]:
                del self._by_node[node]

    def node_of(self, uid: str) -> str:
        return self._nodes.get(uid, "")

    def pods_of(self, node: str) -> Collection[PodInfo]:
        return self._by_node.get(node, {}).values()
