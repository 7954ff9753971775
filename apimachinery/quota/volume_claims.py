"""Measures the usage of volume claims, in all and per storage class.

Source: k8s.io/kubernetes/pkg/quota/v1/evaluator/core/persistent_volume_claims.go, 1.36.
"""

from collections.abc import Iterable

from kubeskew.apimachinery.errors import GroupResource
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apimachinery.quota.amounts import ONE, Amounts
from kubeskew.apimachinery.quota.evaluators import CREATE, UPDATE, Evaluator
from kubeskew.apimachinery.quota.names import STORAGE_CLASS
from kubeskew.apimachinery.quota.scopes import attribute_classes, claim_in_scope

_CLAIMS, _STORAGE = "persistentvolumeclaims", "requests.storage"
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


class VolumeClaimEvaluator(Evaluator):
    """Claims and the storage they ask for; a claim that shrinks is charged until it has shrunk."""

    def __init__(self, gates: FeatureGates) -> None:
        super().__init__(GroupResource("", _CLAIMS), _CLAIMS, _STORAGE)
        self._scoped = gates.enabled("VolumeAttributesClass")

    def handles(self, operation: str, subresource: str, new: Object, old: Object | None) -> bool:
        if subresource == "status":
            return old is not None and self.freed(old, new)
        return not subresource and operation in {CREATE, UPDATE}

    def matching(self, names: Iterable[str]) -> list[str]:
        suffixes = (f"{STORAGE_CLASS}{_CLAIMS}", f"{STORAGE_CLASS}{_STORAGE}")
        return [name for name in names if name in self.names or name.endswith(suffixes)]

    def in_scope(self, selector: Object, obj: Object) -> bool:
        return self._scoped and claim_in_scope(selector, obj)

    def usage(self, obj: Object) -> Amounts:
        found = {_CLAIMS: ONE, f"count/{_CLAIMS}": ONE}
        storage_class = class_of(obj)
        if storage_class:
            found[f"{storage_class}{STORAGE_CLASS}{_CLAIMS}"] = ONE
        storage = _storage(obj)
        if storage is not None:
            found[_STORAGE] = storage
            if storage_class:
                found[f"{storage_class}{STORAGE_CLASS}{_STORAGE}"] = storage
        return found

    def freed(self, old: Object, new: Object) -> bool:
        if _allocated(old) != _allocated(new):
            return True
        return self._scoped and attribute_classes(old) != attribute_classes(new)


def class_of(claim: Object) -> str:
    """Returns the storage class of a claim: by the old annotation, else by its spec."""
    annotations = claim["metadata"].get("annotations") or {}
    if _BETA_CLASS in annotations:
        return str(annotations[_BETA_CLASS])
    return str(claim["spec"].get("storageClassName") or "")


def _allocated(claim: Object) -> Quantity | None:
    found = ((claim.get("status") or {}).get("allocatedResources") or {}).get("storage")
    return None if found is None else Quantity.of(found)


def _storage(claim: Object) -> Quantity | None:
    """Returns the storage that is requested, or still allocated where that is more; in whole bytes."""
    wanted = ((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage")
    if wanted is None:
        return None
    asked, allocated = _whole(Quantity.of(wanted)), _allocated(claim)
    return _whole(allocated) if allocated is not None and allocated > asked else asked


def _whole(quantity: Quantity) -> Quantity:
    """Rounded up to whole bytes; what is whole keeps its text."""
    if quantity.as_int64() is not None:
        return quantity
    return Quantity(quantity.value(), 0, quantity.format)
