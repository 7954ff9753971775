"""Builds the roles and bindings that every cluster has, for a version and its gates, and reconciles them.

`default_roles.json` has the facts of upstream's plugin/pkg/auth/authorizer/rbac/bootstrappolicy, of the
releases that its `origin` names. An entry's `when` lists the periods in which it holds: from and until which
minor, with and without which gates, or in which preview release. `kubeskew:timeline-viewer` is our own: it
lets monitoring read when components came and went.

Source: k8s.io/component-helpers/auth/rbac/reconciliation/{reconcile_role,reconcile_rolebindings}.go, 1.36.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from kubeskew.apimachinery.features import Condition, gate, preview, since, until
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.authorization.rbac import rules_of, uncovered

FILE = "default_roles.json"
_FILE = Path(__file__).with_name(FILE)
_GROUP = "rbac.authorization.k8s.io"
_API_VERSION = f"{_GROUP}/v1"
AUTO_UPDATE = "rbac.authorization.kubernetes.io/autoupdate"
_CONTROLLER = "system:controller:"
_OURS = "kubeskew:"


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = orjson.loads(_FILE.read_bytes())
    return table


def _with_ours(rows: dict[str, Any]) -> dict[str, Any]:
    """The roles and bindings of an imported release, and those that are ours."""
    return {
        section: [*listed, *(row for row in _table()[section] if row["name"].startswith(_OURS))]
        for section, listed in rows.items()
    }


class DefaultRoles:
    """Roles and bindings are whole objects, as they are created."""

    def __init__(self, gates: FeatureGates) -> None:
        self._gates = gates
        rows = gates.version.document(FILE)
        self._rows = _with_ours(rows) if rows is not None else _table()

    def cluster_roles(self) -> Iterator[Object]:
        for row in self._held(self._rows["clusterRoles"]):
            role = self._object("ClusterRole", row["name"], labels=row.get("labels"))
            if "aggregate" in row:
                role["aggregationRule"] = {"clusterRoleSelectors": row["aggregate"]}
            role["rules"] = self.rules(row)
            yield role
        for row in self._held(self._rows["controllerRoles"]):
            yield {**self._object("ClusterRole", _CONTROLLER + row["name"]), "rules": self.rules(row)}

    def cluster_role_bindings(self) -> Iterator[Object]:
        for row in self._held(self._rows["clusterRoleBindings"]):
            yield self._binding("ClusterRoleBinding", row, "ClusterRole")
        for row in self._held(self._rows["controllerRoles"]):
            account = {"kind": "ServiceAccount", "namespace": "kube-system", "name": row["name"]}
            name = _CONTROLLER + row["name"]
            yield self._binding(
                "ClusterRoleBinding", {"name": name, "role": name, "subjects": [account]}, "ClusterRole"
            )

    def roles(self) -> Iterator[Object]:
        for row in self._held(self._rows["roles"]):
            yield {**self._object("Role", row["name"], row["namespace"]), "rules": self.rules(row)}

    def role_bindings(self) -> Iterator[Object]:
        for row in self._held(self._rows["roleBindings"]):
            yield self._binding("RoleBinding", row, "Role")

    def rules_of(self, name: str) -> list[Object]:
        return next(self.rules(row) for row in self._rows["clusterRoles"] if row["name"] == name)

    def rules(self, row: dict[str, Any]) -> list[Object]:
        return list(map(_clean, self._held(row.get("rules", []))))

    def _held(self, rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        return (
            row
            for row in rows
            if "when" not in row or any(_condition(span).value(self._gates) for span in row["when"])
        )

    def _binding(self, kind: str, row: dict[str, Any], role_kind: str) -> Object:
        binding = self._object(kind, row["name"], row.get("namespace", ""))
        subjects = [_subject(subject) for subject in self._held(row["subjects"])]
        if subjects:
            binding["subjects"] = subjects
        binding["roleRef"] = {"apiGroup": _GROUP, "kind": role_kind, "name": row["role"]}
        return binding

    def _object(
        self, kind: str, name: str, namespace: str = "", labels: dict[str, str] | None = None
    ) -> Object:
        metadata: Object = {
            "name": name,
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults", **(labels or {})},
            "annotations": {AUTO_UPDATE: "true"},
        }
        if namespace:
            metadata["namespace"] = namespace
        return {"apiVersion": _API_VERSION, "kind": kind, "metadata": metadata}


def _clean(rule: dict[str, Any]) -> Object:
    return {name: value for name, value in rule.items() if name != "when"}


def _subject(subject: dict[str, Any]) -> Object:
    clean = _clean(subject)
    return clean if clean["kind"] == "ServiceAccount" else {**clean, "apiGroup": _GROUP}


def reconciled(expected: Object, stored: Object) -> Object | None:
    """Adds what the stored object lacks; None if that is nothing, or if it asked to be left alone."""
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
    """A binding cannot be changed to lead to another role: it has to be created again."""
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


def _condition(span: dict[str, Any]) -> Condition:
    """The condition of a row of the table: releases, a preview, gates that are on, gates that are off."""
    found: Condition = since(span.get("since", 0))
    if "until" in span:
        found &= until(span["until"])
    if "preview" in span:
        found &= preview(span["preview"])
    for name in span.get("gates", ()):
        found &= gate(name)
    for name in span.get("without", ()):
        found &= ~gate(name)
    return found
