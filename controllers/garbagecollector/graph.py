"""The graph of owners and dependents, by uid: pure bookkeeping, fed by events.

Behaviour of k8s.io/kubernetes/pkg/controller/garbagecollector/graph_builder.go, 1.36.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kubeskew.apimachinery.objects import Object

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class Identity(NamedTuple):
    """The kind, namespace and name under which an object is known."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


class Work(NamedTuple):
    """An item to process: `delete` checks whether the object has to go, `orphan` frees its dependents."""

    action: str
    uid: str


@dataclass(slots=True, eq=False)
class Node:
    """An object. `virtual`: known only from an owner reference."""

    identity: Identity
    owners: list[Object] = field(default_factory=list)
    dependents: set[str] = field(default_factory=set)  # uids
    virtual: bool = False
    being_deleted: bool = False
    deleting_dependents: bool = False  # deleted in the foreground
    absent_at: set[Identity] = field(default_factory=set)  # places where it was not found

    def blocks(self, owner_uid: str) -> bool:
        """Returns whether the owner's foreground deletion waits for this object."""
        return any(owner["uid"] == owner_uid and owner.get("blockOwnerDeletion") for owner in self.owners)

    def is_named_by(self, reference: Object, namespace: str) -> bool:
        """Returns whether a reference from a namespace matches this object in everything, not only in its
        uid."""
        identity = self.identity
        named = (reference["apiVersion"], reference["kind"], reference["name"])
        near = not identity.namespace or identity.namespace == namespace
        return near and named == (identity.api_version, identity.kind, identity.name)


def is_deleting_dependents(obj: Object) -> bool:
    metadata = obj["metadata"]
    return bool(metadata.get("deletionTimestamp")) and FOREGROUND in (metadata.get("finalizers") or ())


def is_orphaning(obj: Object) -> bool:
    metadata = obj["metadata"]
    return bool(metadata.get("deletionTimestamp")) and ORPHAN in (metadata.get("finalizers") or ())


class Graph:
    """The graph. Each change returns the work that follows from it."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def node(self, uid: str) -> Node | None:
        return self._nodes.get(uid)

    def seen(self) -> list[Identity]:
        """Returns the places of all objects that are known not only from owner references."""
        return [node.identity for node in self._nodes.values() if not node.virtual]

    def dependents(self, node: Node) -> list[Node]:
        return [self._nodes[uid] for uid in sorted(node.dependents) if uid in self._nodes]

    def put(self, identity: Identity, obj: Object) -> Iterable[Work]:
        """Adds or changes an object; returns the work that follows."""
        owners: list[Object] = obj["metadata"].get("ownerReferences") or []
        node = self._nodes.get(identity.uid)
        if node is None:
            node = self._nodes[identity.uid] = Node(identity)
        was_waiting, before = node.deleting_dependents, node.owners
        was_assumed = node.virtual and node.identity != identity
        node.identity, node.virtual = identity, False
        if was_assumed:
            yield from (Work("delete", dependent.identity.uid) for dependent in self._misled(node))
        node.being_deleted = bool(obj["metadata"].get("deletionTimestamp"))
        node.owners = owners
        yield from self._relink(node, before)
        if is_orphaning(obj):
            yield Work("orphan", identity.uid)
        node.deleting_dependents = is_deleting_dependents(obj)
        if node.deleting_dependents and not was_waiting:
            yield from (Work("delete", uid) for uid in sorted(node.dependents))
            yield Work("delete", identity.uid)

    def _relink(self, node: Node, before: list[Object]) -> Iterator[Work]:
        uid = node.identity.uid
        now = {owner["uid"]: owner for owner in node.owners}
        former = {owner["uid"]: owner for owner in before}
        for owner_uid, owner in former.items():
            gone = owner_uid not in now
            if gone and owner_uid in self._nodes:
                self._nodes[owner_uid].dependents.discard(uid)
            unblocked = owner.get("blockOwnerDeletion") and not now.get(owner_uid, {}).get(
                "blockOwnerDeletion"
            )
            if unblocked and self._is_waiting(owner_uid):
                yield Work("delete", owner_uid)
        for owner_uid, owner in now.items():
            if owner_uid not in self._nodes:
                # Assumed to be in the dependent's namespace until seen or looked up.
                identity = Identity(
                    owner["apiVersion"], owner["kind"], node.identity.namespace, owner["name"], owner_uid
                )
                self._nodes[owner_uid] = Node(identity, virtual=True)
                yield Work("delete", owner_uid)
            known = self._nodes[owner_uid]
            known.dependents.add(uid)
            if owner_uid not in former and (
                known.deleting_dependents or not known.is_named_by(owner, node.identity.namespace)
            ):
                yield Work("delete", uid)

    def _misled(self, owner: Node) -> list[Node]:
        """Returns the dependents whose reference has the owner's uid, but another place."""
        uid = owner.identity.uid
        return [
            dependent
            for dependent in self.dependents(owner)
            for reference in dependent.owners
            if reference["uid"] == uid and not owner.is_named_by(reference, dependent.identity.namespace)
        ]

    def _is_waiting(self, uid: str) -> bool:
        node = self._nodes.get(uid)
        return node is not None and node.deleting_dependents

    def absent(self, uid: str) -> Iterable[Work]:
        """Handles that the server has no object at the place in an owner reference: another reference may be
        right.

        An object known from references alone is kept while one of them names a place that was not checked: it
        is the link to the dependents that name it rightly.
        """
        node = self._nodes.get(uid)
        if node is None or not node.virtual:
            yield from self.remove(uid)
            return
        node.absent_at.add(node.identity)
        places = {
            dependent.identity.uid: self._identities(dependent, uid) for dependent in self.dependents(node)
        }
        others = sorted({identity for named in places.values() for identity in named} - node.absent_at)
        if not others:
            yield from self.remove(uid)
            return
        for dependent in sorted(places):
            if node.identity in places[dependent]:
                yield Work("delete", dependent)
        node.identity = others[0]
        yield Work("delete", uid)

    def _identities(self, dependent: Node, uid: str) -> set[Identity]:
        """Returns the places in which the dependent's references put its owner."""
        namespace = dependent.identity.namespace
        return {
            Identity(owner["apiVersion"], owner["kind"], namespace, owner["name"], uid)
            for owner in dependent.owners
            if owner["uid"] == uid
        }

    def remove(self, uid: str) -> Iterable[Work]:
        """Removes an object; returns the work: its dependents, and owners that wait for it."""
        node = self._nodes.pop(uid, None)
        if node is None:
            return
        yield from (Work("delete", dependent) for dependent in sorted(node.dependents))
        for owner in node.owners:
            if owner["uid"] in self._nodes:
                self._nodes[owner["uid"]].dependents.discard(uid)
                if self._is_waiting(owner["uid"]):
                    yield Work("delete", owner["uid"])
