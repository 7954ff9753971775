"""Writers of claims and persistent volumes get these warnings.

Source: pkg/api/persistentvolumeclaim/util.go and pkg/api/persistentvolume/util.go, 1.26 to 1.36.
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
_CLASS = 'deprecated since v1.8; use "storageClassName" attribute instead'
_OPTIONS = 'deprecated since v1.31; use "mountOptions" attribute instead'
_GONE = (
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
)
_SHOWN_AS = {"storageos": "storageOS"}


def claim_warnings(spec: Object, path: str) -> Iterator[str]:
    resources = spec.get("resources") or {}
    for field in ("requests", "limits"):
        text = (resources.get(field) or {}).get("storage")
        if text is not None and Quantity.parse(text).milli_value() % 1000:
            at = key(child(path, f"resources.{field}"), "storage")
            yield f'{at}: fractional byte value "{text}" is invalid, must be an integer'


def volume_claim_warnings(claim: Object, features: VolumeFeatures) -> list[str]:
    annotated = _annotation_warnings(claim, {BETA_CLASS: _CLASS}) if features.beta_class_warnings else []
    return [*annotated, *claim_warnings(claim["spec"], "spec")]


def _annotation_warnings(obj: Object, texts: dict[str, str]) -> list[str]:
    annotations = obj["metadata"].get("annotations") or {}
    return [f"{key('metadata.annotations', name)}: {texts[name]}" for name in texts if name in annotations]


def persistent_volume_warnings(volume: Object, features: VolumeFeatures) -> list[str]:
    spec, texts = volume["spec"], {}
    if features.beta_class_warnings:
        texts[BETA_CLASS] = _CLASS
    if features.mount_option_warnings:
        texts["volume.beta.kubernetes.io/mount-options"] = _OPTIONS
    found = _annotation_warnings(volume, texts)
    if features.recycle_warnings and spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        found.append(f"spec.persistentVolumeReclaimPolicy: {_RECYCLE}")
    terms = ((spec.get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms") or ()
    for position, term in enumerate(terms):
        at = index("spec.nodeAffinity.required.nodeSelectorTerms", position)
        found += term_warnings(term, at, values=False)
    for kind, why in _GONE if features.removed_warnings else ():
        if spec.get(kind) is not None:
            found.append(f"spec.{_SHOWN_AS.get(kind, kind)}: {why}")
    return found
