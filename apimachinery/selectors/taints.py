"""Taints and tolerations.

Source: k8s.io/component-helpers/scheduling/corev1 and k8s.io/api/core/v1/toleration.go, 1.36.
"""

from kubeskew.apimachinery.objects import ObjectView


def tolerates(toleration: ObjectView, taint: ObjectView) -> bool:
    """Returns whether one toleration covers one taint; an empty effect or key covers all."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    match toleration.get("operator") or "Equal":
        case "Exists":
            return True
        case "Equal":
            return (toleration.get("value") or "") == (taint.get("value") or "")
    return False
