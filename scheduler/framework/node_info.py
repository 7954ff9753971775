"""A node with the pods on it, updated pod by pod so that reading it costs nothing."""

from collections.abc import Hashable
from functools import cached_property
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import HostPort
from kubeskew.scheduler.framework import pod_info
from kubeskew.scheduler.framework.pod_info import Amounts, PodInfo


class NodeInfo:
    """A node, the sum of its pods' requests, and their host ports.

    Pods may come before their node: then `node` is None and the node takes no part in scheduling.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.node: Object | None = None
        self.pods: dict[str, PodInfo] = {}  # by uid
        self.requested: Amounts = {}
        self.scored: Amounts = {}
        self.ports: dict[HostPort, int] = {}
        self.affine: dict[str, PodInfo] = {}  # pods with (anti-)affinity to pods, by uid
        self.repelling: dict[str, PodInfo] = {}  # pods that require others to be elsewhere, by uid
        self.claims: dict[str, int] = {}  # volume claims, as namespace/name, and how many pods use them
        self.allocatable: Amounts = {}
        self.labels: dict[str, str] = {}
        self.taints: list[Object] = []
        self.unschedulable = False
        self.max_pods = 0
        # What plugins computed about the node; dropped with every change of it or its pods.
        self.memo: dict[Hashable, Any] = {}

    def clone(self) -> "NodeInfo":
        copy = NodeInfo(self.name)
        copy.node, copy.allocatable, copy.max_pods = self.node, self.allocatable, self.max_pods
        copy.labels, copy.taints, copy.unschedulable = self.labels, self.taints, self.unschedulable
        copy.pods, copy.ports, copy.claims = {**self.pods}, {**self.ports}, {**self.claims}
        copy.requested, copy.scored = {**self.requested}, {**self.scored}
        copy.affine, copy.repelling = {**self.affine}, {**self.repelling}
        return copy

    def set_node(self, node: Object) -> None:
        self.node = node
        spec = node.get("spec") or {}
        self.allocatable = pod_info.amounts((node.get("status") or {}).get("allocatable"))
        self.max_pods = self.allocatable.get("pods", 0)
        self.labels = node["metadata"].get("labels") or {}
        self.taints = spec.get("taints") or []
        self.unschedulable = bool(spec.get("unschedulable"))
        self.__dict__.pop("extended_resources", None)
        self.__dict__.pop("images", None)
        self.memo.clear()

    @cached_property
    def extended_resources(self) -> frozenset[str]:
        """Resources beyond cpu, memory, storage and pods that the node names, even with the amount 0."""
        return frozenset(self.allocatable) - {"cpu", "memory", "ephemeral-storage", "pods"}

    @cached_property
    def images(self) -> dict[str, int]:
        """Sizes in bytes by each name of an image."""
        found = ((self.node or {}).get("status") or {}).get("images") or ()
        return {name: image.get("sizeBytes") or 0 for image in found for name in image.get("names") or ()}

    def add_pod(self, pod: PodInfo) -> None:
        self.pods[pod.uid] = pod
        self._count(pod, 1)
        if pod.affinity.some:
            self.affine[pod.uid] = pod
            if pod.affinity.required_anti:
                self.repelling[pod.uid] = pod

    def remove_pod(self, uid: str) -> None:
        pod = self.pods.pop(uid, None)
        if pod is not None:
            self._count(pod, -1)
            self.affine.pop(uid, None)
            self.repelling.pop(uid, None)

    def _count(self, pod: PodInfo, sign: int) -> None:
        self.memo.clear()
        pod_info.add(self.requested, pod.requests, sign)
        pod_info.add(self.scored, pod.scored_requests, sign)
        for port in sorted(pod.host_ports):
            self.ports[port] = self.ports.get(port, 0) + sign
            if not self.ports[port]:
                del self.ports[port]
        for claim in pod.volume_claims:
            key = f"{pod.namespace}/{claim}"
            self.claims[key] = self.claims.get(key, 0) + sign
            if not self.claims[key]:
                del self.claims[key]
