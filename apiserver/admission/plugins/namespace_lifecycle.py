"""Refuses creations in namespaces that do not exist or are ending, and deletions of the system's namespaces.

Source: k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle/admission.go, 1.36.
"""

from kubeskew.apimachinery.errors import GroupResource, StatusError, not_found
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.admission import CREATE, DELETE, UPDATE, Attributes, Plugin
from kubeskew.apiserver.caching.store_cache import TwoGenerationCache
from kubeskew.apiserver.storage.interfaces import Store
from kubeskew.apiserver.storage.records import Key
from kubeskew.apiserver.unreadable import object_of

_REMEMBERED = 1000  # namespaces, twice
_REVIEWS = "localsubjectaccessreviews.authorization.k8s.io"
IMMORTAL = frozenset({"default", "kube-system", "kube-public"})


class NamespaceLifecycle(Plugin):
    """Looks at every write in a namespace, and at the delete of one."""

    waits = True
    operations = frozenset({CREATE, UPDATE, DELETE})
    subresources = None

    def __init__(self, store: Store) -> None:
        self._store = store
        self._phases: TwoGenerationCache[str, tuple[int, bool]] = TwoGenerationCache(_REMEMBERED)

    async def validate(self, attributes: Attributes) -> None:
        resource = attributes.resource
        if resource.storage_resource == "namespaces":
            if attributes.operation == DELETE and attributes.name in IMMORTAL:
                raise attributes.refuse("this namespace may not be deleted")
            return
        if attributes.operation == DELETE or not resource.namespaced:
            return
        if resource.storage_resource == _REVIEWS:  # an answer would reveal whether the namespace is there
            return
        terminating = await self._is_terminating(attributes.namespace)
        if terminating and attributes.operation == CREATE:
            raise ending(attributes)

    async def admit(self, attributes: Attributes) -> None:
        await self.validate(attributes)

    async def _is_terminating(self, namespace: str) -> bool:
        entry = self._store.get(Key("namespaces", "", namespace))
        if entry is None:
            await self._store.refresh()
            entry = self._store.get(Key("namespaces", "", namespace))
        if entry is None:
            raise not_found(GroupResource("", "namespaces"), namespace)
        known = self._phases.get(namespace)
        if known is None or known[0] != entry.revision:
            status: Object = object_of(entry).get("status") or {}
            known = entry.revision, status.get("phase") == "Terminating"
            self._phases.put(namespace, known)
        return known[1]


def ending(attributes: Attributes) -> StatusError:
    """Controllers recognise the 403 by its cause, NamespaceTerminating."""
    namespace = attributes.namespace
    error = attributes.refuse(
        f"unable to create new content in namespace {namespace} because it is being terminated"
    )
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    error.details = {**(error.details or {}), "causes": [cause]}
    return error
