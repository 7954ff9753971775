"""Measures the usage of claims: volume claims, in all and per storage class, and resource claims.

Of resource claims, devices count per class. From 1.35 (134210) a claim also counts for the extended resources
of its classes, minus its pod's charge (KEP-5004). Since 1.36 (135434) only one claim of a pod has that
reduction.

Source: k8s.io/kubernetes/pkg/quota/v1/evaluator/core (persistent_volume_claims.go, resource_claims.go), 1.36.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kubeskew.apimachinery.errors import GroupResource
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object, controller_of
from kubeskew.apimachinery.pod_resources import IMPLICIT, REQUESTS
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apimachinery.quota.amounts import ONE, Amounts, add, count, raised
from kubeskew.apimachinery.quota.evaluators import (
    CREATE,
    DEVICES,
    STORAGE_CLASS,
    UPDATE,
    Evaluator,
    attribute_classes,
    claim_in_scope,
    is_extended_in_quota,
    is_implicit_in_quota,
)
from kubeskew.apimachinery.quota.features import ClaimUsageFeatures

_CLAIMS, _STORAGE = "persistentvolumeclaims", "requests.storage"
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
MAX_DEVICES = 32  # usage of a request for all devices
ANNOTATION = "resource.kubernetes.io/extended-resource-claim"


class VolumeClaimEvaluator(Evaluator):
    """Claims and their storage; a claim that shrinks is charged until it has shrunk."""

    def __init__(self, gates: FeatureGates) -> None:
        super().__init__(GroupResource("", _CLAIMS), _CLAIMS, _STORAGE)
        self._scoped = ClaimUsageFeatures.of(gates).classes_of_volumes

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
    """The old annotation goes before the spec."""
    annotations = claim["metadata"].get("annotations") or {}
    if _BETA_CLASS in annotations:
        return str(annotations[_BETA_CLASS])
    return str(claim["spec"].get("storageClassName") or "")


def _allocated(claim: Object) -> Quantity | None:
    found = ((claim.get("status") or {}).get("allocatedResources") or {}).get("storage")
    return None if found is None else Quantity.of(found)


def _storage(claim: Object) -> Quantity | None:
    """Storage that is requested, or still allocated where that is more, in whole bytes."""
    wanted = ((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage")
    if wanted is None:
        return None
    asked, allocated = _whole(Quantity.of(wanted)), _allocated(claim)
    return _whole(allocated) if allocated is not None and allocated > asked else asked


def _whole(quantity: Quantity) -> Quantity:
    """Rounds up to whole bytes; a whole quantity keeps its text."""
    if quantity.as_int64() is not None:
        return quantity
    return Quantity(quantity.value(), 0, quantity.format)


@dataclass(frozen=True, slots=True)
class DeviceClasses:
    """Device classes: each one's explicit extended resource, and all extended resources that quotas of claims
    may limit."""

    extended: Mapping[str, str]
    resources: frozenset[str]

    @classmethod
    def of(cls, classes: Iterable[Object]) -> "DeviceClasses":
        explicit = {
            device_class["metadata"]["name"]: (device_class.get("spec") or {}).get("extendedResourceName")
            or ""
            for device_class in classes
        }
        return cls(
            explicit, frozenset({*(IMPLICIT + name for name in explicit), *filter(None, explicit.values())})
        )


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """The lookups that a claim's usage depends on: classes, a namespace's pod by name, its claims."""

    classes: Callable[[], DeviceClasses]
    pod: Callable[[str, str], Object | None]
    claims: Callable[[str], Iterable[Object]]


class ResourceClaimEvaluator(Evaluator):
    """Measures claims; `pod_usage` returns the usage that a claim's pod is charged for."""

    def __init__(
        self, gates: FeatureGates, facts: ClaimFacts, pod_usage: Callable[[Object], Amounts]
    ) -> None:
        super().__init__(GroupResource("resource.k8s.io", "resourceclaims"))
        self._facts = facts
        self._pod_usage = pod_usage
        self._features = ClaimUsageFeatures.of(gates)

    def handles(self, operation: str, subresource: str, new: Object, old: Object | None) -> bool:
        return not subresource and operation in {CREATE, UPDATE}

    def matching(self, names: Iterable[str]) -> list[str]:
        return [
            name for name in names if name in self.names or name.endswith(DEVICES) or self._extended(name)
        ]

    def _extended(self, name: str) -> bool:
        """Returns whether a quota's resource is an extended one that some class provides."""
        if not self._features.counts_extended or not (
            is_extended_in_quota(name) or is_implicit_in_quota(name)
        ):
            return False
        return name.removeprefix(REQUESTS) in self._facts.classes().resources

    def usage(self, obj: Object) -> Amounts:
        devices: Amounts = {}
        for request in ((obj.get("spec") or {}).get("devices") or {}).get("requests") or ():
            devices = add(devices, _devices(request))
        found = {self.names[0]: ONE, **devices}
        if self._features.counts_extended and devices:
            found.update(self._extended_usage(devices, obj))
        return found

    def _extended_usage(self, devices: Amounts, claim: Object) -> Amounts:
        """Counts the devices under the names of extended resources, minus the amounts that the pod is charged
        for already."""
        classes = self._facts.classes()
        by_name: Amounts = {}
        for name, quantity in devices.items():
            class_name = name.removesuffix(DEVICES)
            by_name[REQUESTS + IMPLICIT + class_name] = quantity
            explicit = classes.extended.get(class_name)
            if explicit:
                by_name[REQUESTS + explicit] = quantity
        charged = self._charged(claim)
        left = {
            name: quantity - charged[name] if name in charged else quantity
            for name, quantity in by_name.items()
        }
        return {name: quantity for name, quantity in left.items() if quantity.sign() > 0}

    def _charged(self, claim: Object) -> Amounts:
        """Charged usage of the pod of an extended-resource claim; empty if the claim is not certainly the
        pod's own."""
        owner = _owning_pod(claim)
        if owner is None:
            return {}
        metadata = claim["metadata"]
        pod = self._facts.pod(metadata.get("namespace") or "", owner["name"])
        if pod is None or pod["metadata"].get("uid") != owner.get("uid"):
            return {}
        status = (pod.get("status") or {}).get("extendedResourceClaimStatus")
        if status is not None and status.get("resourceClaimName") != metadata.get("name"):
            return {}
        if status is None and not self._features.offsets_every_claim and not self._is_first(claim, owner):
            return {}
        return self._pod_usage(pod)

    def _is_first(self, claim: Object, owner: Object) -> bool:
        """True if no older claim (or as old, with a smaller name) was made for the pod."""
        mine = claim["metadata"]
        for other in self._facts.claims(mine.get("namespace") or ""):
            owns = _owning_pod(other)
            if owns is None or owns.get("uid") != owner.get("uid"):
                continue
            theirs = other["metadata"]
            if _age(theirs) < _age(mine):
                return False
        return True


def _age(metadata: Object) -> tuple[str, str]:
    """Sorts claims by creation time, then name. A claim not yet created has no time and comes first."""
    return metadata.get("creationTimestamp") or "", metadata.get("name") or ""


def _owning_pod(claim: Object) -> Object | None:
    """None unless the claim is for extended resources and a Pod controls it."""
    metadata = claim["metadata"]
    if (metadata.get("annotations") or {}).get(ANNOTATION) != "true":
        return None
    owner = controller_of(claim)
    if owner is None or owner.get("kind") != "Pod" or owner.get("apiVersion") != "v1":
        return None
    return owner


def _devices(request: Object) -> Amounts:
    """Devices that one request may get, by class; of alternatives the most per class.

    Before 1.33 a request has no `exactly`: its fields are in the request itself.
    """
    alternatives = request.get("firstAvailable") or ()
    if alternatives:
        most: Amounts = {}
        for alternative in alternatives:
            most = raised(most, _one(alternative)) if _one(alternative) else most
        return {name: quantity for name, quantity in most.items() if quantity.sign()}
    exactly = request.get("exactly")
    if exactly is None:
        exactly = request if request.get("deviceClassName") else None
    return _one(exactly) if exactly is not None else {}


def _one(request: Object) -> Amounts:
    mode, number = request.get("allocationMode"), 0
    if mode == "ExactCount":
        number = request.get("count") or 0
    elif mode == "All":
        number = MAX_DEVICES
    return {(request.get("deviceClassName") or "") + DEVICES: count(number)}
