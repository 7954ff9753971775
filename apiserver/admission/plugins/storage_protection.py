"""Protects volumes and their claims from deletion while in use: they begin with a finalizer.

Source: k8s.io/kubernetes/plugin/pkg/admission/storage/storageobjectinuseprotection/admission.go, 1.36.
"""

from kubeskew.apiserver.admission import CREATE, Attributes, Plugin

_FINALIZERS = {
    "persistentvolumes": "kubernetes.io/pv-protection",
    "persistentvolumeclaims": "kubernetes.io/pvc-protection",
}


class StorageObjectInUseProtection(Plugin):
    """Adds the finalizer to a new volume or claim."""

    operations = frozenset({CREATE})
    resources = frozenset(_FINALIZERS)

    async def admit(self, attributes: Attributes) -> None:
        obj = attributes.object
        if obj is None:
            return
        finalizer = _FINALIZERS[attributes.resource.storage_resource]
        finalizers = obj["metadata"].get("finalizers") or []
        if finalizer not in finalizers:
            obj["metadata"]["finalizers"] = [*finalizers, finalizer]
