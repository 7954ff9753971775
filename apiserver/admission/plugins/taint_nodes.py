"""Taints a new node until its conditions say that it is ready.

Source: k8s.io/kubernetes/plugin/pkg/admission/nodetaint/admission.go, 1.36.
"""

from kubeskew.apiserver.admission import CREATE, Attributes, Plugin

_TAINT = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


class TaintNodesByCondition(Plugin):
    operations = frozenset({CREATE})
    resources = frozenset({"nodes"})

    async def admit(self, attributes: Attributes) -> None:
        obj = attributes.object
        if obj is None:
            return
        spec = obj.setdefault("spec", {})
        taints = spec.get("taints") or []
        if not any(
            taint.get("key") == _TAINT["key"] and taint.get("effect") == _TAINT["effect"] for taint in taints
        ):
            spec["taints"] = [*taints, dict(_TAINT)]
