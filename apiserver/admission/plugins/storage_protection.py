"""Protects objects from deletion while they are in use: they begin with a finalizer.

Source: plugin/pkg/admission/storage/storageobjectinuseprotection/admission.go and
plugin/pkg/admission/scheduling/podgroupprotection/admission.go, 1.36.
"""

from collections.abc import Mapping

from kubeskew.apiserver.admission import CREATE, Attributes, Plugin
from kubeskew.apiserver.features import AdmissionFeatures

_VOLUMES = {
    "persistentvolumes": "kubernetes.io/pv-protection",
    "persistentvolumeclaims": "kubernetes.io/pvc-protection",
}
_CLASSES = {"volumeattributesclasses.storage.k8s.io": "kubernetes.io/vac-protection"}
_POD_GROUPS = {"podgroups.scheduling.k8s.io": "scheduling.k8s.io/podgroup-protection"}


class _Protection(Plugin):
    """Adds the finalizer of its resource to a new object."""

    operations = frozenset({CREATE})

    def __init__(self, finalizers: Mapping[str, str]) -> None:
        self._finalizers = finalizers

    async def admit(self, attributes: Attributes) -> None:
        obj = attributes.object
        if obj is None:
            return
        finalizer = self._finalizers.get(attributes.resource.storage_resource)
        finalizers = obj["metadata"].get("finalizers") or []
        if finalizer is not None and finalizer not in finalizers:
            obj["metadata"]["finalizers"] = [*finalizers, finalizer]


class StorageObjectInUseProtection(_Protection):
    """Protects volumes and claims, and since 1.33 classes of volume attributes."""

    resources = frozenset(_VOLUMES | _CLASSES)

    def __init__(self, features: AdmissionFeatures) -> None:
        super().__init__(_VOLUMES | _CLASSES if features.protects_attributes_classes else _VOLUMES)


class PodGroupProtection(_Protection):
    resources = frozenset(_POD_GROUPS)

    def __init__(self, features: AdmissionFeatures) -> None:
        super().__init__(_POD_GROUPS if features.protects_pod_groups else {})
