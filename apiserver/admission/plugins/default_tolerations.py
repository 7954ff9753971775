"""Lets pods tolerate a node that is not ready or reachable for five minutes, unless they say otherwise.

Source: k8s.io/kubernetes/plugin/pkg/admission/defaulttolerationseconds/admission.go, 1.36.
"""

from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.admission import CREATE, UPDATE, Attributes, Plugin

_SECONDS = 300
_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class DefaultTolerationSeconds(Plugin):
    """Adds the two tolerations where no other covers their taint."""

    operations = frozenset({CREATE, UPDATE})
    awaits = False
    resources = frozenset({"pods"})

    async def admit(self, attributes: Attributes) -> None:
        obj = attributes.object
        if obj is None:
            return
        tolerations: list[Object] = obj["spec"].get("tolerations") or []
        missing = [
            taint for taint in _TAINTS if not any(_covers(toleration, taint) for toleration in tolerations)
        ]
        if missing:
            added: list[dict[str, Any]] = [
                {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _SECONDS}
                for taint in missing
            ]
            obj["spec"]["tolerations"] = [*tolerations, *added]


def _covers(toleration: Object, taint: str) -> bool:
    return (toleration.get("key") or taint) == taint and (
        toleration.get("effect") or "NoExecute"
    ) == "NoExecute"
