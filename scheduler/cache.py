"""The scheduler's view of nodes and their pods: the informers' state plus its own decisions.

A pod is *assumed* on a node from the decision until the informer shows it there. One event loop runs both the
cycle and the informers, and a cycle hardly ever waits between its first look at the nodes and its decision.
So it reads the live values instead of a snapshot. During a long search for devices it may see changes or not.
"""

from collections.abc import Iterable, Sequence

from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo


class Cache:
    def __init__(self) -> None:
        self._nodes: dict[str, NodeInfo] = {}
        self._pods: dict[str, str] = {}  # pod uid → node name
        self._assumed: dict[str, str] = {}  # the same, of assumed pods
        self._affine: dict[str, NodeInfo] = {}
        self._images: dict[str, set[str]] = {}  # image name → the nodes that have it
        self._present: list[NodeInfo] | None = None  # nodes that exist, in order of arrival

    # -- nodes

    def set_node(self, node: Object) -> None:
        name = node["metadata"]["name"]
        info = self._info(name)
        if info.node is None:
            self._present = None
        before = info.images if info.node is not None else {}
        info.set_node(node)
        if before or info.images:
            self._count_images(name, before, info.images)

    def remove_node(self, name: str) -> None:
        info = self._nodes.get(name)
        if info is None:
            return
        self._count_images(name, info.images, {})
        info.node = None
        self._present = None
        self._drop_if_empty(info)

    def nodes(self) -> Sequence[NodeInfo]:
        if self._present is None:
            self._present = [info for info in self._nodes.values() if info.node is not None]
        return self._present

    def node(self, name: str) -> NodeInfo | None:
        """None also for a node that has pods but is not in the cluster itself."""
        info = self._nodes.get(name)
        return info if info is not None and info.node is not None else None

    # -- pods

    def add_pod(self, pod: PodInfo) -> None:
        """Adds a pod that is on a node, new or changed; confirms an assumed one, on any node."""
        self.remove_pod(pod.uid)
        self._place(pod, pod.spec["nodeName"])

    def remove_pod(self, uid: str) -> None:
        self._assumed.pop(uid, None)
        name = self._pods.pop(uid, None)
        if name is not None:
            info = self._nodes[name]
            info.remove_pod(uid)
            if not info.affine:
                self._affine.pop(name, None)
            self._drop_if_empty(info)

    def refresh(self, pod: Object) -> None:
        """Replaces a pod by a version that does not change what is counted."""
        name = self._pods.get(pod["metadata"].get("uid", ""))
        info = self._nodes[name].pods.get(pod["metadata"]["uid"]) if name is not None else None
        if info is not None:
            info.pod = pod

    def affine_nodes(self) -> Sequence[NodeInfo]:
        return [info for info in self._affine.values() if info.node is not None]

    def nodes_with_image(self, name: str) -> int:
        return len(self._images.get(name, ()))

    def assume(self, pod: PodInfo, node: str) -> None:
        """Counts the pod as running on the node from now on; raises ValueError if it is on one already."""
        if pod.uid in self._pods:
            raise ValueError(f"pod {pod.uid}({pod.key}) is in the cache, so can't be assumed")
        self._place(pod, node)
        self._assumed[pod.uid] = node

    def forget(self, uid: str) -> None:
        """Undoes `assume`; a pod that the informer has confirmed stays."""
        if uid in self._assumed:
            self.remove_pod(uid)

    def is_assumed(self, uid: str) -> bool:
        return uid in self._assumed

    def knows(self, uid: str) -> bool:
        return uid in self._pods

    @property
    def sizes(self) -> dict[str, int]:
        return {"nodes": len(self.nodes()), "pods": len(self._pods), "assumed_pods": len(self._assumed)}

    def _place(self, pod: PodInfo, node: str) -> None:
        info = self._info(node)
        info.add_pod(pod)
        if pod.uid in info.affine:
            self._affine[node] = info
        self._pods[pod.uid] = node

    def _count_images(self, node: str, before: Iterable[str], now: Iterable[str]) -> None:
        for name in before:
            nodes = self._images.get(name, set())
            nodes.discard(node)
            if not nodes:
                self._images.pop(name, None)
        for name in now:
            self._images.setdefault(name, set()).add(node)

    def _info(self, name: str) -> NodeInfo:
        info = self._nodes.get(name)
        if info is None:
            info = self._nodes[name] = NodeInfo(name)
        return info

    def _drop_if_empty(self, info: NodeInfo) -> None:
        if info.node is None and not info.pods:
            self._nodes.pop(info.name, None)
