"""Keeps the relations of nodes to objects, up to date with the store.

Source: k8s.io/kubernetes/plugin/pkg/auth/authorizer/node/{graph,graph_populator}.go, 1.36. Upstream walks a
graph; here each object knows how many pods of which node refer to it.
"""

from collections import Counter
from collections.abc import Iterable

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.authorization.references import Reference, references, volume_secrets
from kubeskew.apiserver.caching.change_tracker import ChangeTracker
from kubeskew.apiserver.storage.interfaces import Store
from kubeskew.apiserver.storage.records import Entry, Key
from kubeskew.apiserver.unreadable import known_object

PODS, VOLUMES = "pods", "persistentvolumes"
ATTACHMENTS = "volumeattachments.storage.k8s.io"
# Of devices, and of KEP-4381's draft.
SLICES = ("resourceslices.resource.k8s.io", "noderesourceslices.resource.k8s.io")
CERTIFICATES = "podcertificaterequests.certificates.k8s.io"


class Graph:
    """The relations between nodes and the objects that their pods need."""

    def __init__(self, store: Store) -> None:
        self._following = ChangeTracker(store, (PODS, VOLUMES, ATTACHMENTS, *SLICES, CERTIFICATES))
        self._held: dict[Key, tuple[str, tuple[Reference, ...]]] = {}  # by pod, attachment, slice
        self._nodes: dict[Reference, Counter[str]] = {}
        self._volumes: dict[Key, tuple[Reference, ...]] = {}  # the claim first, then secrets
        self._of_secret: dict[Reference, set[Key]] = {}

    def related(self, node: str, what: Reference) -> bool:
        """Decides whether `what` is on the node, or needed there."""
        self._refresh()
        if self._needs(node, what):
            return True
        resource, _, name = what
        if resource == VOLUMES:
            return self._has_volume(node, Key(VOLUMES, "", name))
        return any(self._has_volume(node, volume) for volume in self._of_secret.get(what, ()))

    def _has_volume(self, node: str, volume: Key) -> bool:
        found = self._volumes.get(volume)
        return found is not None and self._needs(node, found[0])

    def _needs(self, node: str, what: Reference) -> bool:
        nodes = self._nodes.get(what)
        return nodes is not None and node in nodes

    def _refresh(self) -> None:
        if not self._following:
            return
        for key, entry in self._following.take():
            if key.resource == VOLUMES:
                self._put_volume(key, entry)
            else:
                self._put(key, entry)

    def _put(self, key: Key, entry: Entry | None) -> None:
        obj = known_object(entry) if entry else None
        new = _relations(key, obj) if obj is not None else None
        old = self._held.get(key)
        if new == old:
            return
        if old is not None:
            self._count(old[0], old[1], -1)
            del self._held[key]
        if new is not None:
            self._held[key] = new
            self._count(new[0], new[1], 1)

    def _count(self, node: str, what: Iterable[Reference], change: int) -> None:
        for reference in what:
            nodes = self._nodes.setdefault(reference, Counter())
            nodes[node] += change
            if not nodes[node]:
                del nodes[node]
            if not nodes:
                del self._nodes[reference]

    def _put_volume(self, key: Key, entry: Entry | None) -> None:
        for secret in self._volumes.pop(key, ())[1:]:
            self._of_secret[secret].discard(key)
            if not self._of_secret[secret]:
                del self._of_secret[secret]
        volume = (known_object(entry) if entry else None) or {}
        claim = (volume.get("spec") or {}).get("claimRef")
        if not claim:
            return
        bound = "persistentvolumeclaims", claim.get("namespace") or "", claim.get("name") or ""
        secrets = tuple(dict.fromkeys(volume_secrets(volume)))
        self._volumes[key] = (bound, *secrets)
        for secret in secrets:
            self._of_secret.setdefault(secret, set()).add(key)


def _relations(key: Key, obj: Object) -> tuple[str, tuple[Reference, ...]] | None:
    """Returns the node that an object belongs to, and what that brings to it; None without a node."""
    spec = obj.get("spec") or obj  # slices of v1alpha2 have no spec
    node = spec.get("nodeName") or ""
    if not node:
        return None
    own = (key.resource, key.namespace, key.name)
    needed = references(obj) if key.resource == PODS else ()
    return node, tuple(dict.fromkeys((own, *needed)))
