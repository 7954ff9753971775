"""Warns of volumes of removed kinds, and of files that hide each other.

Source: pkg/api/pod/warnings.go, about 1.33; which files hide each other is told since 1.30 (from memory).
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
_FUNCTIONAL = ", non-functional in v1.31+"
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
            shown = text if features.ceph_gone else text.replace(_FUNCTIONAL, "")
            if kind == "gitRepo" and features.git_disabled:
                shown += ", and disabled by default in v1.33+"
            yield f"{child(at, _SHOWN_AS.get(kind, kind))}: {shown}"
    if features.overlap_warnings:
        yield from overlap_warnings(volumes)
    elif features.token_overlap_warnings:
        yield from _hidden_tokens(volumes, path)


def _hidden_tokens(volumes: list[Object], path: str) -> Iterator[str]:
    """Files of projected volumes with the path of a token of some projected volume."""
    parts = [
        (position, source)
        for position, volume in enumerate(volumes)
        for source in (volume.get("projected") or {}).get("sources") or ()
    ]
    tokens = {
        part["serviceAccountToken"].get("path")
        for _, part in parts
        if part.get("serviceAccountToken") is not None
    }
    if not tokens:
        return
    for position, part in parts:
        at = child(index(path, position), "projected")
        kinds = (("configMap", "configMap"), ("secret", "secrets"), ("downwardAPI", "downwardAPI"))
        for kind, shown in kinds:
            for number, item in enumerate((part.get(kind) or {}).get("items") or ()):
                if item.get("path") in tokens:
                    where = index(f"{at}.sources.{shown}", number)
                    yield f'{where}: has duplicated path with ServiceAccountToken "{item["path"]}"'
        bundle = (part.get("clusterTrustBundle") or {}).get("path")
        if bundle in tokens:
            where = f"{at}.sources.ClusterTrustBundle"
            yield f'{where}: has duplicated path with ServiceAccountToken "{bundle}"'
