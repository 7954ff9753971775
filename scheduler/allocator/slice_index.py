"""Indexes all slices of the cluster, slice by slice, with what each node sees of them."""

from collections.abc import Iterable, Iterator

from kubeskew.apimachinery.objects import ObjectView
from kubeskew.scheduler.allocator.features import AllocatorFeatures
from kubeskew.scheduler.allocator.node_selection import on_node
from kubeskew.scheduler.allocator.pools import NodePools, Pool, node_pools, view
from kubeskew.scheduler.allocator.slices import Device, NodeView, PoolID, Slice


class SliceIndex:
    """Slices by pool and by node."""

    def __init__(self, features: AllocatorFeatures) -> None:
        self._features = features
        self._pools: dict[PoolID, dict[str, Slice]] = {}
        self._local: dict[str, dict[PoolID, int]] = {}  # node → pools with slices for it alone
        self._shared: dict[PoolID, int] = {}  # pools with slices for several nodes
        self._views: dict[str, NodePools] = {}
        self.revision = 0  # counts changes of slices

    @classmethod
    def of(cls, features: AllocatorFeatures, slices: Iterable[ObjectView]) -> "SliceIndex":
        """Indexes a list of slices that will not change; names may repeat."""
        index = cls(features)
        for serial, slice_ in enumerate(slices):
            index._add(slice_, f"{slice_['metadata']['name']}\0{serial}")
        return index

    def copy(self) -> "SliceIndex":
        """Returns an index of the same slices that can be changed by itself."""
        copy = SliceIndex(self._features)
        copy._pools = {pool: {**slices} for pool, slices in self._pools.items()}
        copy._local = {node: {**pools} for node, pools in self._local.items()}
        copy._shared = {**self._shared}
        copy.revision = self.revision
        return copy

    def set_slice(self, obj: ObjectView) -> None:
        self.remove_slice(obj)
        self._add(obj, obj["metadata"]["name"])

    def _add(self, obj: ObjectView, key: str) -> None:
        made = Slice(obj["metadata"]["name"], obj["spec"], self._features)
        self._pools.setdefault(made.pool, {})[key] = made
        self._place(made, 1)

    def remove_slice(self, obj: ObjectView) -> None:
        """Removes a slice, found by its name and pool, which never change."""
        spec = obj["spec"]
        slices = self._pools.get(PoolID(spec["driver"], spec["pool"]["name"]), {})
        known = slices.pop(obj["metadata"]["name"], None)
        if known is not None:
            self._place(known, -1)
            if not slices:
                del self._pools[known.pool]

    def _place(self, placed: Slice, change: int) -> None:
        self.revision += 1
        node = placed.spec.get("nodeName") or ""
        local = bool(node) and not placed.everywhere
        counts = self._local.setdefault(node, {}) if local else self._shared
        counts[placed.pool] = counts.get(placed.pool, 0) + change
        if not counts[placed.pool]:
            del counts[placed.pool]
        others = len(self._pools.get(placed.pool, ())) - (change > 0)
        if not local or others:
            self._views.clear()  # a pool may span nodes
        else:
            self._views.pop(node, None)

    def pools(self, node: NodeView) -> NodePools:
        """Returns the pools that the node sees, computed again only after a change that may concern it."""
        known = self._views.get(node.name)
        if known is not None and known.labels is node.labels:
            return known
        identities = {**self._local.get(node.name, {}), **self._shared}
        slices = [list(self._pools[identity].values()) for identity in identities]
        found = self._views[node.name] = node_pools(slices, node, self._features)
        return found

    def all_pools(self, node: NodeView) -> Iterator[tuple[PoolID, Pool | None]]:
        """Yields every pool of the cluster with what the node sees of it, None if nothing."""
        for identity in sorted(self._pools):
            yield identity, view(list(self._pools[identity].values()), node, self._features)

    def devices(self, node: NodeView) -> Iterator[Device]:
        """Yields every device that is for the node, whatever the state of its pool."""
        for identity in {**self._local.get(node.name, {}), **self._shared}:
            for slice_ in self._pools[identity].values():
                if slice_.spec.get("perDeviceNodeSelection"):
                    yield from (
                        device for device in slice_.devices if on_node(device.spec, node.labels, node.name)
                    )
                elif on_node(slice_.spec, node.labels, node.name):
                    yield from slice_.devices

    def slices(self) -> Iterator[ObjectView]:
        """Yields the specs of all slices."""
        for pool in self._pools.values():
            for slice_ in pool.values():
                yield slice_.spec

    def by_node(self) -> dict[str, list[Slice]]:
        """Returns the slices that are for a single node, by its name."""
        found: dict[str, list[Slice]] = {}
        for pool in self._pools.values():
            for slice_ in pool.values():
                if node := slice_.spec.get("nodeName"):
                    found.setdefault(node, []).append(slice_)
        return found
