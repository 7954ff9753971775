"""Completes the sources that claims' volumes are made from: `dataSource`, and the newer `dataSourceRef`.

Source: pkg/api/persistentvolumeclaim/util.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.features import VolumeFeatures

_TAKEN = {("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot")}
_SHARED = ("apiGroup", "kind", "name")


def settle(spec: Object, old: Object, features: VolumeFeatures) -> None:
    """Removes, in place, sources that old clients expect to be ignored, and gives both fields the same value.

    `old` is the spec before the change, empty at a create.
    """
    had_reference = old.get("dataSourceRef") is not None
    across = bool((spec.get("dataSourceRef") or {}).get("namespace"))
    if across and not had_reference and not features.sources_across_namespaces:
        del spec["dataSourceRef"]
    had_any = had_reference or old.get("dataSource") is not None
    if not had_any and spec.get("dataSourceRef") is None and not _is_taken(spec.get("dataSource") or {}):
        spec.pop("dataSource", None)
    if features.any_data_source:
        _complete(spec)


def _is_taken(source: Object) -> bool:
    return (source.get("apiGroup") or "", source.get("kind")) in _TAKEN


def _complete(spec: Object) -> None:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None:
        spec["dataSourceRef"] = _copied(source)
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = _copied(reference)


def _copied(source: Object) -> Object:
    return {name: source[name] for name in _SHARED if name in source}
