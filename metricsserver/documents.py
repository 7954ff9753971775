"""Makes the discovery documents of the group metrics.k8s.io, and what a health check answers."""

from collections.abc import Mapping

from kubeskew.apimachinery.objects import Object
from kubeskew.metricsserver.objects import API_VERSION, GROUP, KINDS, VERSION

_SERVED = {"groupVersion": API_VERSION, "version": VERSION}


def group() -> Object:
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": GROUP,
        "versions": [_SERVED],
        "preferredVersion": _SERVED,
    }


def groups() -> Object:
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_without_kind(group())]}


def resources() -> Object:
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": API_VERSION,
        "resources": [
            {
                "name": kind.plural,
                "singularName": "",
                "namespaced": kind.namespaced,
                "kind": kind.kind,
                "verbs": ["get", "list"],
            }
            for kind in KINDS.values()
        ],
    }


def health(path: str, checks: Mapping[str, bool]) -> tuple[int, str]:
    """Returns status and text of a health check, as k8s.io/apiserver's healthz writes it."""
    if all(checks.values()):
        return 200, "ok"
    lines = [
        f"[+]{name} ok" if fine else f"[-]{name} failed: reason withheld" for name, fine in checks.items()
    ]
    return 500, "".join(f"{line}\n" for line in lines) + f"{path.strip('/')} check failed\n"


def _without_kind(document: Object) -> Object:
    return {key: value for key, value in document.items() if key not in {"kind", "apiVersion"}}
