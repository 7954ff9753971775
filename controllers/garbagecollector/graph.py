"""The graph of owners and dependents, by uid: updated by events, without requests.

Behaviour of k8s.io/kubernetes/pkg/controller/garbagecollector/graph_builder.go, 1.36.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kubeskew.apimachinery.objects import Object

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class Identity(NamedTuple):
    """Objects are known under their kind, namespace and name."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


class Work(NamedTuple):
    """Actions are `delete`, which checks whether the object has to go, and `orphan`, which frees its
    dependents.
    """

    action: str
    uid: str


@dataclass(slots=True, eq=False)
class Node:
    """`virtual` objects are known only from an owner reference."""

    identity: Identity
    owners: list[Object] = field(default_factory=list)
    dependents: set[str] = field(default_factory=set)  # uids
    virtual: bool = False
    being_deleted: bool = False
    deleting_dependents: bool = False  # deleted in the foreground
    absent_at: set[Identity] = field(default_factory=set)  # places where it was not found

    def blocks(self, owner_uid: str) -> bool:
        return any(owner["uid"] == owner_uid and owner.get("blockOwnerDeletion") for owner in self.owners)

    def is_named_by(self, reference: Object, namespace: str) -> bool:
        """Compares kind, name and namespace, too, not only the uid."""
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
    """Each change returns the work that follows from it."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def node(self, uid: str) -> Node | None:
        return self._nodes.get(uid)

    def seen(self) -> list[Identity]:
        """Objects known only from owner references are left out."""
        return [node.identity for node in self._nodes.values() if not node.virtual]

    def dependents(self, node: Node) -> list[Node]:
        return [self._nodes[uid] for uid in sorted(node.dependents) if uid in self._nodes]

    def put(self, identity: Identity, obj: Object) -> Iterable[Work]:
        owners: list[Object] = obj["metadata"].get("ownerReferences") or []
        node = self._nodes.get(identity.uid)
        if node is None:
            node = self._nodes[identity.uid] = Node(identity)
        was_waiting, before = node.deleting_dependents, node.owners
        if node.virtual:
            was_assumed = node.identity != identity
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
        """The reference has the owner's uid, but another kind, name or namespace."""
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
        """Called when the server has no object of the kind and name in an owner reference; another reference
        may be right.

        An object known from references alone is kept while one of them has a kind and name that were not
        checked: it connects to the dependents whose references are right.
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
        namespace = dependent.identity.namespace
        return {
            Identity(owner["apiVersion"], owner["kind"], namespace, owner["name"], uid)
            for owner in dependent.owners
            if owner["uid"] == uid
        }

    def remove(self, uid: str) -> Iterable[Work]:
        """Dependents have to be checked, and so have owners that wait for this object."""
        node = self._nodes.pop(uid, None)
        if node is None:
            return
        yield from (Work("delete", dependent) for dependent in sorted(node.dependents))
        for owner in node.owners:
            if owner["uid"] in self._nodes:
                self._nodes[owner["uid"]].dependents.discard(uid)
                if self._is_waiting(owner["uid"]):
                    yield Work("delete", owner["uid"])
