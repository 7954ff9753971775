"""Warns of volumes of removed kinds, and of files that hide each other.

Source: pkg/api/pod/warnings.go, 1.26 … 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import child, index
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.features import PodFeatures
from kubeskew.apiserver.registry.shared.podtemplate.overlaps import overlap_warnings
from kubeskew.apiserver.registry.shared.volumes.warnings import claim_warnings

# (field, text), in upstream's order
_KINDS = (
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("ephemeral", ""),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
)
_SHOWN_AS = {"storageos": "storageOS"}
_PLANNED = "deprecated in v1.22, support removal is planned in v1.26"
_REMOVALS = {  # what 1.26 says of kinds that were to go
    **dict.fromkeys(("flocker", "storageos", "quobyte"), _PLANNED),
    "glusterfs": "deprecated in v1.25, this feature will be removed soon after in a subsequent release",
}
_CEPH = ("cephfs", "rbd")


def volume_warnings(volumes: list[Object], path: str, features: PodFeatures) -> Iterator[str]:
    for position, volume in enumerate(volumes):
        at = index(path, position)
        for kind, text in _KINDS:
            if volume.get(kind) is None or (kind in _CEPH and not features.ceph_warnings):
                continue
            if kind == "ephemeral":
                template = volume["ephemeral"].get("volumeClaimTemplate") or {}
                where = child(at, "ephemeral.volumeClaimTemplate.spec")
                yield from claim_warnings(template.get("spec") or {}, where)
                continue
            shown = _REMOVALS.get(kind, text) if features.old_removals else text
            if kind == "gitRepo" and features.git_disabled:
                shown += ", and disabled by default in v1.33+"
            yield f"{child(at, _SHOWN_AS.get(kind, kind))}: {shown}"
    if features.overlap_warnings:
        yield from overlap_warnings(volumes, sources_repeat=features.sources_repeat)
