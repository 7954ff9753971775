"""Writers of claims and persistent volumes get these warnings.

Source: pkg/api/persistentvolumeclaim/util.go and pkg/api/persistentvolume/util.go, 1.36 (from memory).
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import child, index, key
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apiserver.features import VolumeFeatures
from kubeskew.apiserver.registry.shared.selectors import term_warnings
from kubeskew.apiserver.registry.shared.volumes.claims import BETA_CLASS

_RECYCLE = (
    "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic "
    "provisioning."
)
_GONE = (
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
)
_SHOWN_AS = {"storageos": "storageOS", "cephfs": "cephfs"}


def claim_warnings(spec: Object, path: str) -> Iterator[str]:
    resources = spec.get("resources") or {}
    for field in ("requests", "limits"):
        text = (resources.get(field) or {}).get("storage")
        if text is not None and Quantity.parse(text).milli_value() % 1000:
            at = key(child(path, f"resources.{field}"), "storage")
            yield f'{at}: fractional byte value "{text}" is invalid, must be an integer'


def volume_claim_warnings(claim: Object) -> list[str]:
    found = []
    if BETA_CLASS in (claim["metadata"].get("annotations") or {}):
        found.append(_beta_text())
    return [*found, *claim_warnings(claim["spec"], "spec")]


def _beta_text() -> str:
    at = key("metadata.annotations", BETA_CLASS)
    return f'{at}: deprecated since v1.8; use "storageClassName" attribute instead'


def persistent_volume_warnings(volume: Object, features: VolumeFeatures) -> list[str]:
    spec, found = volume["spec"], []
    if BETA_CLASS in (volume["metadata"].get("annotations") or {}):
        found.append(_beta_text())
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        found.append(f"spec.persistentVolumeReclaimPolicy: {_RECYCLE}")
    terms = ((spec.get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms") or ()
    for position, term in enumerate(terms):
        at = index("spec.nodeAffinity.required.nodeSelectorTerms", position)
        found += term_warnings(term, at, values=False)
    text = (spec.get("capacity") or {}).get("storage")
    if text is not None and Quantity.parse(text).milli_value() % 1000:
        at = key("spec.capacity", "storage")
        found.append(f'{at}: fractional byte value "{text}" is invalid, must be an integer')
    for kind, why in _GONE if features.removed_warnings else ():
        if spec.get(kind) is not None:
            found.append(f"spec.{_SHOWN_AS.get(kind, kind)}: {why}")
    return found
