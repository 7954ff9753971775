"""Judges what controllers do with objects by their owners: I24 own-namespace."""

from collections.abc import Iterator, Mapping

from kubeskew.conformance.invariants.cluster import Change, Cluster, controller, is_deleting, uid_of
from kubeskew.conformance.invariants.invariant import SafetyInvariant

_MANAGER = "kube-controller-manager"
_ACCOUNTS = "system:serviceaccount:kube-system:"
# For it an owner in another namespace is absent; I16 judges what it deletes.
_COLLECTOR = "generic-garbage-collector"
# The accounts of controllers that delete what their owners control, and nothing else.
_OWNERS = frozenset(
    {
        "cronjob-controller",
        "daemon-set-controller",
        "deployment-controller",
        "job-controller",
        "replicaset-controller",
        "replication-controller",
        "resource-claim-controller",
        "statefulset-controller",
    }
)
_NEVER_OWN = frozenset({"events", "events.events.k8s.io", "leases.coordination.k8s.io"})


class OwnNamespace(SafetyInvariant):
    """I24: no controller adopts, disowns or deletes an object for an owner in another namespace.

    Owners without a namespace are nobody's neighbours. An object that was disowned meanwhile may still be
    deleted: a controller's cache may be behind.
    """

    code = "I24"
    name = "own-namespace"

    def __init__(self) -> None:
        self._places: dict[str, tuple[str, str]] = {}  # by uid, of objects in namespaces: namespace, and text
        self._controllers: dict[str, set[str]] = {}  # by uid: the uids of all controllers that it had

    def see(self, change: Change, cluster: Cluster) -> Iterator[str]:
        write = change.write
        if not write.namespace or write.resource in _NEVER_OWN:
            return
        uid, before = uid_of(write.value), change.before
        if before is None:
            self._places[uid] = write.namespace, f"{write.value.get('kind')} {write.namespace}/{write.name}"
        references, former = _owners(write.value), _owners(before or {"metadata": {}})
        if references and (before is None or references != former):
            self._controllers.setdefault(uid, set()).add(str(controller(write.value).get("uid") or ""))
        if before is None or not write.by.startswith(_MANAGER):
            return
        account = write.user.removeprefix(_ACCOUNTS)
        if account != _COLLECTOR and change.now is not None and references != former:
            yield from self._foreign(change, references.keys() - former.keys(), "was adopted for")
            yield from self._foreign(change, former.keys() - references.keys(), "was disowned for")
        gone = change.now is None or is_deleting(change.now)
        if account in _OWNERS and gone and not is_deleting(before):
            yield from self._deleted(change, uid, account)

    def _foreign(self, change: Change, uids: set[str], what: str) -> Iterator[str]:
        for uid in sorted(uids):
            namespace, text = self._places.get(uid, (change.write.namespace, ""))
            if namespace != change.write.namespace:
                yield f"{change.text} {what} {text}, which is in another namespace"

    def _deleted(self, change: Change, uid: str, account: str) -> Iterator[str]:
        """Yields an object that was deleted, and none of whose controllers, ever, was in its namespace."""
        had = self._controllers.get(uid, set()) - {""}
        places = [self._places[each] for each in sorted(had) if each in self._places]
        if len(places) < len(had) or any(namespace == change.write.namespace for namespace, _ in places):
            return
        whose = (
            f"for {places[0][1]}, which is in another namespace" if places else "though nobody controlled it"
        )
        yield f"{change.text} was deleted by the {account} {whose}"


def _owners(obj: Mapping[str, object]) -> dict[str, str]:
    """Returns the names of the owners by uid."""
    metadata = obj["metadata"]
    references = metadata.get("ownerReferences") if isinstance(metadata, Mapping) else None
    return {str(each.get("uid")): str(each.get("name")) for each in references or ()}
