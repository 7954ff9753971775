"""Matches volumes to claims, and decides how the two refer to each other. Pure functions.

Behaviour of component-helpers/storage/volume (FindMatchingVolume) and of the controller in
pkg/controller/volume/persistentvolume, 1.36.
"""

from collections.abc import Iterable

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apimachinery.selectors.labels import LabelSelector

BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


def annotation(obj: Object, name: str) -> str | None:
    found: str | None = (obj["metadata"].get("annotations") or {}).get(name)
    return found


def class_of(obj: Object) -> str:
    """The old annotation goes before the field."""
    text = annotation(obj, _BETA_CLASS)
    return str(obj["spec"].get("storageClassName") or "") if text is None else text


def is_meant_for(volume: Object, claim: Object) -> bool:
    """True if the volume names the claim, by uid if it has one."""
    reference = volume["spec"].get("claimRef")
    if reference is None:
        return False
    metadata = claim["metadata"]
    if (reference.get("name"), reference.get("namespace")) != (metadata["name"], metadata["namespace"]):
        return False
    return not reference.get("uid") or reference["uid"] == metadata["uid"]


def _capacity(volume: Object) -> Quantity:
    return Quantity.parse(str((volume["spec"].get("capacity") or {}).get("storage", "0")))


def _requested(claim: Object) -> Quantity:
    requests = (claim["spec"].get("resources") or {}).get("requests") or {}
    return Quantity.parse(str(requests.get("storage", "0")))


def _mode(obj: Object) -> str:
    return str(obj["spec"].get("volumeMode") or "Filesystem")


def mismatch(volume: Object, claim: Object) -> str:
    """Upstream's reason why a claim cannot have the volume that it names; empty if it can."""
    if _capacity(volume) < _requested(claim):
        return "requested PV is too small"
    if class_of(volume) != class_of(claim):
        return "storageClassName does not match"
    if _mode(volume) != _mode(claim):
        return "incompatible volumeMode"
    if not _access_fits(volume, claim):
        return "incompatible accessMode"
    return ""


def _access_fits(volume: Object, claim: Object) -> bool:
    return set(claim["spec"].get("accessModes") or ()) <= set(volume["spec"].get("accessModes") or ())


def best(volumes: Iterable[Object], claim: Object, *, delayed: bool) -> Object | None:
    """Prefers the volume that names the claim, then the smallest free one that fits.

    `delayed`: the claim waits for its first consumer, so only a volume that names it counts.
    """
    ordered = sorted(volumes, key=lambda one: (_capacity(one), one["metadata"]["name"]))
    fitting = [
        volume
        for volume in ordered
        if not mismatch(volume, claim) and not volume["metadata"].get("deletionTimestamp")
    ]
    for volume in fitting:
        if is_meant_for(volume, claim):
            return volume
    if delayed:
        return None
    selector = claim["spec"].get("selector")
    for volume in fitting:
        free = volume["spec"].get("claimRef") is None
        if not free or (volume.get("status") or {}).get("phase") != "Available":
            continue
        labels = volume["metadata"].get("labels")
        if selector is None or LabelSelector.from_object(selector).matches(labels):
            return volume
    return None


def claim_reference(claim: Object) -> Object:
    metadata = claim["metadata"]
    return {
        "kind": "PersistentVolumeClaim",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "apiVersion": "v1",
        "resourceVersion": metadata["resourceVersion"],
    }


def annotated(obj: Object, *names: str) -> Object:
    """Copies the object, with these annotations set to `yes`."""
    annotations = {**(obj["metadata"].get("annotations") or {}), **dict.fromkeys(names, "yes")}
    return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}
