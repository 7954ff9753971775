"""Finds files of a volume that hide each other. Source: pkg/api/pod/warnings.go, 1.32 … 1.36."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from kubeskew.apimachinery.objects import Object

_WARNINGS_MAX = 1000  # of a volume: our limit, far more than a response carries
_PLAIN = (("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName"))
_CERTIFICATES = (
    ("certificateChainPath", "chain"),
    ("keyPath", "key"),
    ("credentialBundlePath", "credential bundle"),
)
_PROJECTED = (("configMap", "ConfigMap", "name"), ("secret", "Secret", "name"))


def overlap_warnings(volumes: list[Object], *, sources_repeat: bool = False) -> Iterator[str]:
    for volume in volumes:
        name = json.dumps(volume.get("name") or "")
        for kind, shown, key in _PLAIN:
            source = volume.get(kind) or {}
            what = f"{shown} {json.dumps(source.get(key) or '')}"
            yield from _told(name, what, [(path, "") for path in _paths(source)])
        yield from _told(
            name, "DownwardAPI", [(path, "") for path in _paths(volume.get("downwardAPI") or {})]
        )
        parts = (volume.get("projected") or {}).get("sources") or ()
        yield from _projected_warnings(name, parts, sources_repeat=sources_repeat)


def _projected_warnings(name: str, parts: Sequence[Object], *, sources_repeat: bool) -> Iterator[str]:
    """Warns of a projected volume, source by source; one without files may repeat those before it."""
    paths: list[tuple[str, str]] = []
    owners: list[int] = []
    last: list[tuple[str, str]] = []
    found: list[tuple[int, str]] = []
    for number, part in enumerate(parts):
        if not part:
            found.append((number, f"volume {name} (Projected) has no sources provided"))
            continue
        own = list(_projected(part))
        last = own if own or not sources_repeat else last
        paths += last
        owners += [number] * len(last)
    found += [(owners[position], text) for position, text in _pairs(name, "Projected", paths)]
    yield from (text for _, text in sorted(found, key=lambda pair: pair[0]))


def _paths(source: Object) -> list[str]:
    return [item.get("path") or "" for item in source.get("items") or ()]


def _projected(part: Object) -> Iterator[tuple[str, str]]:
    for kind, shown, key in _PROJECTED:
        source = part.get(kind) or {}
        for path in _paths(source):
            yield path, f"{shown} {json.dumps(source.get(key) or '')}"
    yield from ((path, "DownwardAPI") for path in _paths(part.get("downwardAPI") or {}))
    token, bundle = part.get("serviceAccountToken"), part.get("clusterTrustBundle")
    if token is not None:
        yield token.get("path") or "", "ServiceAccountToken"
    if bundle is not None:
        name = bundle.get("name") or bundle.get("signerName") or ""
        yield bundle.get("path") or "", f"ClusterTrustBundle {json.dumps(name)}"
    certificate = part.get("podCertificate") or {}
    for key, what in _CERTIFICATES:
        if certificate.get(key):
            yield certificate[key], f"PodCertificate {what}"


def _told(name: str, what: str, paths: list[tuple[str, str]]) -> Iterator[str]:
    yield from (text for _, text in _pairs(name, what, paths))


def _pairs(name: str, what: str, paths: list[tuple[str, str]]) -> Iterator[tuple[int, str]]:
    """Yields the warnings of paths that overlap, each with the later one's position."""
    for position, other in islice(_overlapping([path.rstrip("/") for path, _ in paths]), _WARNINGS_MAX):
        pair = f"{_shown(*paths[position])} with {_shown(*paths[other])}"
        yield position, f"volume {name} ({what}): overlapping paths: {pair}"


@dataclass(slots=True)
class _Directory:
    """A path of which earlier paths are known: by position, those that end here and those that end below."""

    children: dict[str, "_Directory"] = field(default_factory=dict)
    ending: list[int] = field(default_factory=list)
    below: list[int] = field(default_factory=list)


def _overlapping(paths: list[str]) -> Iterator[tuple[int, int]]:
    """Yields the positions of each two paths of which one is the other or lies below it, the later one first.

    Takes time in the length of all paths and the number of pairs.
    """
    root = _Directory()
    for position, path in enumerate(paths):
        if not path:
            continue
        directory, others = root, list[int]()
        for part in path.split("/"):
            directory.below.append(position)
            directory = directory.children.setdefault(part, _Directory())
            others += directory.ending
        others += directory.below
        directory.ending.append(position)
        yield from ((position, other) for other in sorted(others))


def _shown(path: str, source: str) -> str:
    quoted = json.dumps(path.rstrip("/"))
    return f"{quoted} ({source})" if source else quoted
