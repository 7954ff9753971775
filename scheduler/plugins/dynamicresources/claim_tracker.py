"""Tracks all claims: those of the informer, newer ones that the scheduler wrote, and allocations not written
yet. A simulation gets a copy, whose changes can be undone.
"""

from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any, Protocol

from kubeskew.apimachinery.objects import Object, controller_of
from kubeskew.scheduler.allocator.allocated_state import AllocatedDevices, AllocatedState
from kubeskew.scheduler.allocator.claims import (
    AllocatedDevice,
    allocated_devices,
    allocation,
    display,
    is_extended_resource_claim,
)
from kubeskew.scheduler.framework.events import Action, ClusterEvent, EventResource
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.simulation import UndoLog, slices_node

Key = tuple[str, str]
Listener = Callable[[ClusterEvent, Object | None, Object | None], None]

_ADDED = ClusterEvent(EventResource.RESOURCE_CLAIM, Action.ADD)
CLAIM_UPDATED = ClusterEvent(EventResource.RESOURCE_CLAIM, Action.UPDATE)
_DELETED = ClusterEvent(EventResource.RESOURCE_CLAIM, Action.DELETE)


def _key(claim: Mapping[str, Any]) -> Key:
    metadata = claim["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _revision(claim: Mapping[str, Any]) -> int:
    text = claim["metadata"].get("resourceVersion") or "0"
    return int(text) if text.isdigit() else 0


class ClaimObserver(Protocol):
    """Follows claims, to keep their resources other than devices."""

    def set_claim(self, claim: Object) -> None: ...
    def remove_claim(self, claim: Object) -> None: ...


class ClaimTracker:
    """Tracks claims in the v1 shape, and the devices in use; `shares` is DRAConsumableCapacity."""

    def __init__(self, *, shares: bool = False, observer: ClaimObserver | None = None) -> None:
        self._observer = observer
        self._claims: dict[Key, Object] = {}
        self._extended_claims: dict[str, Key] = {}  # pod uid → its claim for extended resources
        self._shares = shares
        self._allocated = AllocatedDevices()
        self._pending: dict[str, list[AllocatedDevice]] = {}  # claim uid → devices
        self.listener: Listener = lambda *_: None

    def copy(self, observer: ClaimObserver | None = None) -> "ClaimTracker":
        """The copy has the same claims and allocations, follows no informer and notifies `observer`."""
        copy = ClaimTracker(shares=self._shares, observer=observer)
        for key, claim in self._claims.items():
            copy._store(key, claim)
        for uid, devices in self._pending.items():
            copy._pending[uid] = devices
            copy._take(devices)
        return copy

    # -- reading

    def get(self, namespace: str, name: str) -> Object | None:
        return self._claims.get((namespace, name))

    def all(self) -> Iterable[Object]:
        """The view is live."""
        return self._claims.values()

    def extended_resource_claim(self, pod: Object) -> Object | None:
        """The claim's owner must have the pod's uid and name."""
        metadata = pod["metadata"]
        key = self._extended_claims.get(metadata.get("uid", ""))
        claim = self._claims.get(key) if key is not None else None
        owner = controller_of(claim) if claim is not None else None
        return claim if owner is not None and owner.get("name") == metadata["name"] else None

    @property
    def allocated(self) -> AllocatedState:
        """The view is live."""
        return self._allocated.state

    def count_written(self, found: AllocatedDevices) -> None:
        """Only devices count of which the server is known to know."""
        for claim in self._claims.values():
            for device in self._devices(allocation(claim)):
                found.add(*device)

    def count_pending(self, found: AllocatedDevices) -> None:
        for devices in self._pending.values():
            for device in devices:
                found.add(*device)

    def is_pending(self, uid: str) -> bool:
        return uid in self._pending

    @property
    def pending_uids(self) -> Set[str]:
        """Uids of claims whose allocation is in flight; the view is live."""
        return self._pending.keys()

    # -- news from the informer

    def set_claim(self, claim: Object) -> None:
        key = _key(claim)
        old = self._claims.get(key)
        same = old is not None and old["metadata"].get("uid") == claim["metadata"].get("uid")
        if old is not None and same and _revision(claim) <= _revision(old):
            return  # our own write is newer, or this is its event
        self._store(key, claim)
        self.listener(CLAIM_UPDATED if same else _ADDED, old if same else None, claim)

    def remove_claim(self, claim: Object) -> None:
        old = self._claims.get(_key(claim))
        if old is not None and old["metadata"].get("uid") == claim["metadata"].get("uid"):
            self._drop(_key(claim))
            self.listener(_DELETED, old, None)

    # -- what is assumed without any server, in a copy

    def put(self, claim: Object) -> None:
        """Replaces a known claim regardless of the order of revisions."""
        self._store(_key(claim), claim)

    def drop(self, claim: Object) -> None:
        self._drop(_key(claim))

    # -- our own decisions

    def assume(self, claim: Object) -> bool:
        """Takes the answer to a write without waiting for the informer; False means that the informer does
        not know the claim.

        A claim that the informer never had would stay for ever: it may be deleted while the watch is broken,
        or have been deleted before the answer came (scheduler/util/assumecache, 1.36).
        """
        known = self._claims.get(_key(claim))
        if known is None or known["metadata"].get("uid") != claim["metadata"].get("uid"):
            return False
        self.set_claim(claim)
        return True

    def forget(self, claim: Object) -> None:
        """Called for claims that the scheduler itself deleted."""
        self.remove_claim(claim)

    def add_pending(self, uid: str, result: Mapping[str, Any]) -> None:
        """Notes the allocation that the claim will get: its devices are in use from now on."""
        self._pending[uid] = self._devices(result)
        self._take(self._pending[uid])

    def remove_pending(self, uid: str) -> bool:
        """False means that no allocation was in flight. Called when it is written or given up."""
        devices = self._pending.pop(uid, None)
        self._release(devices or [])
        return devices is not None

    # -- bookkeeping

    def _store(self, key: Key, claim: Object) -> None:
        self._take(self._devices(allocation(claim)))  # first, so that devices that stay in use are never free
        self._drop(key)
        self._claims[key] = claim
        if self._observer is not None:
            self._observer.set_claim(claim)
        owner = controller_of(claim) if is_extended_resource_claim(claim) else None
        if owner is not None:
            self._extended_claims[owner["uid"]] = key

    def _drop(self, key: Key) -> None:
        claim = self._claims.pop(key, None)
        if claim is None:
            return
        self._release(self._devices(allocation(claim)))
        if self._observer is not None:
            self._observer.remove_claim(claim)
        owner = controller_of(claim) if is_extended_resource_claim(claim) else None
        if owner is not None and self._extended_claims.get(owner["uid"]) == key:
            del self._extended_claims[owner["uid"]]

    def _devices(self, result: Mapping[str, Any] | None) -> list[AllocatedDevice]:
        return allocated_devices(result, shares=self._shares)

    def _take(self, devices: list[AllocatedDevice]) -> None:
        for device in devices:
            self._allocated.add(*device)

    def _release(self, devices: list[AllocatedDevice]) -> None:
        for device in devices:
            self._allocated.remove(*device)


class SimulatedClaims(UndoLog):
    """Changes `claims`, which is a copy, and the nodes that Filter has seen."""

    def __init__(self, claims: ClaimTracker) -> None:
        super().__init__()
        self._claims = claims
        self._detected: set[str] = set()

    def write(self, claim: Object) -> None:
        metadata = claim["metadata"]
        before = self._claims.get(metadata.get("namespace", ""), metadata["name"])
        self._claims.put(claim)
        if before is None:
            self.undo_by(lambda: self._claims.drop(claim))
        else:
            self.undo_by(lambda: self._claims.put(before))

    def remove(self, claim: Object) -> None:
        self._claims.drop(claim)
        self.undo_by(lambda: self._claims.put(claim))

    def origin_of_new(self, node: NodeInfo) -> str:
        """Name of the node whose slices the node uses, if it has not been seen before; "" for others and real
        nodes."""
        name = node.name
        if name in self._detected:
            return ""
        self._detected.add(name)
        self.undo_by(lambda: self._detected.discard(name))
        origin = slices_node(node.node)
        return origin if origin != name else ""


def driver_allocates(claim: Object) -> str:
    """Reason against pods whose claims no simulation can allocate."""
    return (
        f"resourceclaim {display(claim)} is allocated by the controller of its driver, "
        "which cannot be simulated"
    )
