"""Indexes the stored roles and bindings by their subjects.

Source: k8s.io/kubernetes/pkg/registry/rbac/validation/rule.go, 1.36. Upstream walks through every binding in
any order; here they are found by subject and taken by name.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.authorization.rules import Rule, rules_of
from kubeskew.apiserver.caching.change_tracker import ChangeTracker
from kubeskew.apiserver.storage.interfaces import Store
from kubeskew.apiserver.storage.records import Entry, Key
from kubeskew.apiserver.unreadable import known_object
from kubeskew.apiserver.user import User

GROUP = "rbac.authorization.k8s.io"
ROLES, CLUSTER_ROLES = f"roles.{GROUP}", f"clusterroles.{GROUP}"
ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS = f"rolebindings.{GROUP}", f"clusterrolebindings.{GROUP}"
_RESOURCES = (CLUSTER_ROLES, ROLES, CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS)
SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"

_Who = tuple[str, str]  # ("User" or "Group", name)


class Grant(NamedTuple):
    """Holds the rules that a binding grants, or why its role grants none. `source` names all three."""

    source: str
    rules: Sequence[Rule]
    error: str = ""


class _Binding(NamedTuple):
    key: Key
    role: tuple[str, str]  # kind and name
    subjects: tuple[tuple[_Who, str], ...]  # who, and how the subject is told


class Bindings:
    """Keeps the roles and bindings of a store, up to date with it."""

    def __init__(self, store: Store) -> None:
        self._following = ChangeTracker(store, _RESOURCES)
        self._roles: dict[Key, tuple[Rule, ...]] = {}
        self._bindings: dict[Key, _Binding] = {}
        self._of: dict[tuple[str, _Who], dict[Key, None]] = {}  # (namespace, who) -> bindings
        self._generation = 0

    def refresh(self) -> int:
        """Takes in what has changed; returns a number that grows with every change."""
        if not self._following:
            return self._generation
        self._generation += 1
        for key, entry in self._following.take():
            if key.resource in {ROLES, CLUSTER_ROLES}:
                self._put_role(key, entry)
            else:
                self._put_binding(key, entry)
        return self._generation

    def _put_role(self, key: Key, entry: Entry | None) -> None:
        role = known_object(entry) if entry is not None else None
        if role is None:
            self._roles.pop(key, None)
        else:
            self._roles[key] = rules_of(role)

    def _put_binding(self, key: Key, entry: Entry | None) -> None:
        old = self._bindings.pop(key, None)
        for who, _ in old.subjects if old else ():
            held = self._of.get((key.namespace, who), {})
            held.pop(key, None)
            if not held:
                self._of.pop((key.namespace, who), None)
        obj = known_object(entry) if entry is not None else None
        if obj is None:
            return
        binding = self._bindings[key] = _binding(key, obj)
        for who, _ in binding.subjects:
            self._of.setdefault((key.namespace, who), {})[key] = None

    def grants(self, user: User, namespace: str) -> Iterator[Grant]:
        """Yields the grants of the bindings of `namespace` (empty: the cluster's) to a user."""
        asked: list[_Who] = [("User", user.name), *(("Group", group) for group in user.groups)]
        found = {key for who in asked for key in self._of.get((namespace, who), ())}
        for key in sorted(found):
            yield self._grant(self._bindings[key], frozenset(asked))

    def _grant(self, binding: _Binding, asked: frozenset[_Who]) -> Grant:
        subject = next(text for who, text in binding.subjects if who in asked)
        kind, name = binding.role
        rules = self.rules_of_role(kind, name, binding.key.namespace)
        if rules is None:
            return Grant("", (), missing_role(kind, name))
        what, place = _told(binding.key)
        return Grant(f'{what} "{place}" of {kind} "{name}" to {subject}', rules)

    def rules_of_role(self, kind: str, name: str, namespace: str) -> Sequence[Rule] | None:
        """Returns the rules of the role that a binding in `namespace` refers to, None if there is none."""
        self.refresh()
        if kind == "ClusterRole":
            return self._roles.get(Key(CLUSTER_ROLES, "", name))
        return self._roles.get(Key(ROLES, namespace, name)) if kind == "Role" else None


def missing_role(kind: str, name: str) -> str:
    """Returns the error for a role that a binding names and that does not exist."""
    if kind not in {"Role", "ClusterRole"}:
        return f'unsupported role reference kind: "{kind}"'
    return f'{kind.lower()}.{GROUP} "{name}" not found'


def _told(key: Key) -> tuple[str, str]:
    if key.resource == CLUSTER_ROLE_BINDINGS:
        return "ClusterRoleBinding", key.name
    return "RoleBinding", f"{key.name}/{key.namespace}"


def _binding(key: Key, obj: Object) -> _Binding:
    role = obj.get("roleRef") or {}
    subjects = tuple(_subjects(obj.get("subjects") or (), key.namespace))
    return _Binding(key, (role.get("kind") or "", role.get("name") or ""), subjects)


def _subjects(subjects: Sequence[Object], namespace: str) -> Iterator[tuple[_Who, str]]:
    for subject in subjects:
        kind, name = subject.get("kind") or "", subject.get("name") or ""
        if kind in {"User", "Group"}:
            yield (kind, name), f'{kind} "{name}"'
        elif kind == "ServiceAccount" and (place := subject.get("namespace") or namespace):
            yield ("User", f"{SERVICE_ACCOUNT_PREFIX}{place}:{name}"), f'{kind} "{name}/{place}"'
