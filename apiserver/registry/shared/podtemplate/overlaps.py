"""Files of a volume that hide each other. Source: pkg/api/pod/warnings.go, about 1.34 (from memory)."""

import json
from collections.abc import Iterator

from kubeskew.apimachinery.objects import Object

_PLAIN = (("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName"))
_PROJECTED = (("configMap", "ConfigMap", "name"), ("secret", "Secret", "name"))


def overlap_warnings(volumes: list[Object]) -> Iterator[str]:
    for volume in volumes:
        name = json.dumps(volume.get("name") or "")
        for kind, shown, field in _PLAIN:
            source = volume.get(kind) or {}
            what = f"{shown} {json.dumps(source.get(field) or '')}"
            yield from _told(name, what, [(path, "") for path in _paths(source)])
        yield from _told(
            name, "DownwardAPI", [(path, "") for path in _paths(volume.get("downwardAPI") or {})]
        )
        parts = (volume.get("projected") or {}).get("sources") or ()
        if not all(parts):
            yield from (f"volume {name} (Projected) has no sources provided" for part in parts if not part)
        yield from _told(name, "Projected", [one for part in parts for one in _projected(part)])


def _paths(source: Object) -> list[str]:
    return [item.get("path") or "" for item in source.get("items") or ()]


def _projected(part: Object) -> Iterator[tuple[str, str]]:
    for kind, shown, field in _PROJECTED:
        source = part.get(kind) or {}
        for path in _paths(source):
            yield path, f"{shown} {json.dumps(source.get(field) or '')}"
    yield from ((path, "DownwardAPI") for path in _paths(part.get("downwardAPI") or {}))
    token, bundle = part.get("serviceAccountToken"), part.get("clusterTrustBundle")
    if token is not None:
        yield token.get("path") or "", "ServiceAccountToken"
    if bundle is not None:
        name = bundle.get("name") or bundle.get("signerName") or ""
        yield bundle.get("path") or "", f"ClusterTrustBundle {json.dumps(name)}"


def _told(name: str, what: str, paths: list[tuple[str, str]]) -> Iterator[str]:
    for position, (path, source) in enumerate(paths):
        for other, its in paths[:position]:
            if _overlaps(path.rstrip("/"), other.rstrip("/")):
                pair = f"{_shown(path, source)} with {_shown(other, its)}"
                yield f"volume {name} ({what}): overlapping path {pair}"


def _overlaps(one: str, other: str) -> bool:
    one, other = f"{one}/", f"{other}/"
    return "/" not in {one, other} and (one.startswith(other) or other.startswith(one))


def _shown(path: str, source: str) -> str:
    quoted = json.dumps(path.rstrip("/"))
    return f"{quoted} ({source})" if source else quoted
