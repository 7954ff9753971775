"""Adds what stored default roles and bindings lack; what somebody added stays.

Source: k8s.io/component-helpers/auth/rbac/reconciliation/{reconcile_role,reconcile_rolebindings}.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.authorization.covering import uncovered
from kubeskew.apiserver.authorization.default_roles import AUTO_UPDATE
from kubeskew.apiserver.authorization.rules import rules_of


def reconciled(expected: Object, stored: Object) -> Object | None:
    """Returns the stored object with what it lacks, None if that is nothing or if it asked to be
    left alone.
    """
    if (stored["metadata"].get("annotations") or {}).get(AUTO_UPDATE) == "false":
        return None
    new = {**stored, "metadata": dict(stored["metadata"])}
    for name in ("labels", "annotations"):
        wanted = expected["metadata"].get(name) or {}
        if wanted.keys() - (stored["metadata"].get(name) or {}).keys():
            new["metadata"][name] = {**wanted, **(stored["metadata"].get(name) or {})}
    if "roleRef" in expected:
        _add_subjects(expected, new)
    elif expected.get("aggregationRule"):
        _add_selectors(expected, new)
    elif stored.get("rules") != expected.get("rules") and (
        missing := uncovered(rules_of(stored), rules_of(expected))
    ):
        new["rules"] = [*(stored.get("rules") or ()), *(rule.as_object() for rule in missing)]
    return new if new != stored else None


def must_be_replaced(expected: Object, stored: Object) -> bool:
    """Decides whether a binding leads to another role: that cannot be changed, only made anew."""
    return "roleRef" in expected and expected["roleRef"] != stored.get("roleRef")


def _add_subjects(expected: Object, new: Object) -> None:
    present = new.get("subjects") or []
    missing = [subject for subject in expected.get("subjects") or () if subject not in present]
    if missing:
        new["subjects"] = [*present, *missing]


def _add_selectors(expected: Object, new: Object) -> None:
    present = (new.get("aggregationRule") or {}).get("clusterRoleSelectors") or []
    missing = [
        selector
        for selector in expected["aggregationRule"]["clusterRoleSelectors"]
        if selector not in present
    ]
    if missing:
        new["aggregationRule"] = {"clusterRoleSelectors": [*present, *missing]}
