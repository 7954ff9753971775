"""Lets a volume claim grow only if it is bound and its storage class allows it.

Source: k8s.io/kubernetes/plugin/pkg/admission/storage/persistentvolume/resize/admission.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apimachinery.quota.claims import class_of
from kubeskew.apiserver.admission import UPDATE, Attributes, Plugin
from kubeskew.apiserver.storage.interfaces import Store
from kubeskew.apiserver.storage.records import Key
from kubeskew.apiserver.unreadable import object_of

_UNBOUND = "Only bound persistent volume claims can be expanded"
_FIXED = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must "
    "support resize"
)


class PersistentVolumeClaimResize(Plugin):
    operations = frozenset({UPDATE})
    resources = frozenset({"persistentvolumeclaims"})

    def __init__(self, store: Store) -> None:
        self._store = store

    async def validate(self, attributes: Attributes) -> None:
        new, old = attributes.object, attributes.old
        if new is None or old is None or _size(new) <= _size(old):
            return
        if (old.get("status") or {}).get("phase") != "Bound":
            raise attributes.refuse(_UNBOUND)
        name = class_of(new)
        if not name or name != class_of(old) or not self._allows(name):
            raise attributes.refuse(_FIXED)

    def _allows(self, name: str) -> bool:
        entry = self._store.get(Key("storageclasses.storage.k8s.io", "", name))
        return entry is not None and bool(object_of(entry).get("allowVolumeExpansion"))


def _size(claim: Object) -> Quantity:
    requests = (claim["spec"].get("resources") or {}).get("requests") or {}
    return Quantity.of(requests.get("storage"))
