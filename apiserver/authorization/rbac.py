"""Authorizes by RBAC: rules, what they cover, and the stored roles and bindings by subject.

Upstream walks through every binding in any order; here they are found by subject and taken by name.

What a user may do with a kind of object is worked out once and remembered until a role or binding changes.

Sources: k8s.io/kubernetes/pkg/apis/rbac/v1/evaluation_helpers.go and plugin/pkg/auth/authorizer/rbac/rbac.go,
1.36; k8s.io/component-helpers/auth/rbac/validation/policy_comparator.go and
k8s.io/kubernetes/pkg/registry/rbac/validation/policy_compact.go, 1.36;
k8s.io/kubernetes/pkg/registry/rbac/validation/rule.go, 1.36;
k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/rbac.go, 1.36.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from kubeskew.apimachinery.field import listed
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.authorization import NO_OPINION, Decision, Rules
from kubeskew.apiserver.caching.store_cache import ChangeTracker, TwoGenerationCache
from kubeskew.apiserver.http.request import RequestInfo
from kubeskew.apiserver.storage.interfaces import Store
from kubeskew.apiserver.storage.records import Entry, Key
from kubeskew.apiserver.unreadable import known_object
from kubeskew.apiserver.user import User

ALL = "*"
GROUP = "rbac.authorization.k8s.io"
ROLES, CLUSTER_ROLES = f"roles.{GROUP}", f"clusterroles.{GROUP}"
ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS = f"rolebindings.{GROUP}", f"clusterrolebindings.{GROUP}"
_RESOURCES = (CLUSTER_ROLES, ROLES, CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS)
SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"

_Who = tuple[str, str]  # ("User" or "Group", name)
_USERS = 2_000  # pairs of user and namespace, twice
_QUESTIONS = 1_000  # kinds and verbs of each, twice
_What = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Rule:
    """Parsed from a PolicyRule; empty `names` mean every name."""

    verbs: tuple[str, ...]
    groups: tuple[str, ...]
    resources: tuple[str, ...]
    names: tuple[str, ...]
    paths: tuple[str, ...]

    @classmethod
    def of(cls, rule: Object) -> "Rule":
        fields = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
        return cls(*(tuple(rule.get(name) or ()) for name in fields))

    def as_object(self) -> Object:
        """The object is an item of a role's `rules`; empty fields are left out, except `verbs`."""
        fields = {
            "verbs": self.verbs,
            "apiGroups": self.groups,
            "resources": self.resources,
            "resourceNames": self.names,
            "nonResourceURLs": self.paths,
        }
        return {name: list(values) for name, values in fields.items() if values or name == "verbs"}

    def allows(self, info: RequestInfo) -> bool:
        if not info.is_resource:
            return self.allows_path(info.verb, info.path)
        kind = self.allows_kind(info.verb, info.group, info.resource, info.subresource)
        return kind and (not self.names or info.name in self.names)

    def allows_kind(self, verb: str, group: str, resource: str, subresource: str) -> bool:
        return (
            (ALL in self.verbs or verb in self.verbs)
            and (ALL in self.groups or group in self.groups)
            and self._covers(resource, subresource)
        )

    def _covers(self, resource: str, subresource: str) -> bool:
        if ALL in self.resources:
            return True
        if not subresource:
            return resource in self.resources
        return f"{resource}/{subresource}" in self.resources or f"*/{subresource}" in self.resources

    def allows_path(self, verb: str, path: str) -> bool:
        if ALL not in self.verbs and verb not in self.verbs:
            return False
        return any(path_matches(pattern, path) for pattern in self.paths)


def path_matches(pattern: str, path: str) -> bool:
    """`*` at the end of the pattern stands for anything."""
    if pattern in {ALL, path}:
        return True
    return pattern.endswith("*") and path.startswith(pattern.rstrip("*"))


def rules_of(role: Object) -> tuple[Rule, ...]:
    return tuple(Rule.of(rule) for rule in role.get("rules") or ())


def uncovered(owned: Sequence[Rule], wanted: Sequence[Rule]) -> list[Rule]:
    """Breaks `wanted` down into one verb on one thing each, and keeps what no rule of `owned` grants."""
    parts = [part for rule in wanted for part in _parts(rule)]
    return [part for part in parts if not any(_covers(rule, part) for rule in owned)]


def _parts(rule: Rule) -> Iterator[Rule]:
    for group in rule.groups:
        for resource in rule.resources:
            for verb in rule.verbs:
                for names in _each(rule.names):
                    yield Rule((verb,), (group,), (resource,), names, ())
    for path in rule.paths:
        for verb in rule.verbs:
            yield Rule((verb,), (), (), (), (path,))


def _each(names: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [(name,) for name in names] if names else [()]


def _covers(owned: Rule, part: Rule) -> bool:
    return (
        (ALL in owned.verbs or set(part.verbs) <= set(owned.verbs))
        and (ALL in owned.groups or set(part.groups) <= set(owned.groups))
        and all(_has_resource(owned, resource) for resource in part.resources)
        and all(any(path_matches(own, path) for own in owned.paths) for path in part.paths)
        and (not owned.names or (bool(part.names) and set(part.names) <= set(owned.names)))
    )


def _has_resource(owned: Rule, resource: str) -> bool:
    if ALL in owned.resources or resource in owned.resources:
        return True
    _, slash, subresource = resource.partition("/")
    return bool(slash) and f"*/{subresource}" in owned.resources


def compact(rules: Sequence[Rule]) -> list[Rule]:
    """Merges rules about the same single thing into one, with all their verbs."""
    merged: dict[tuple[str, str, tuple[str, ...]], Rule] = {}
    rest = []
    for rule in rules:
        if len(rule.groups) == 1 and len(rule.resources) == 1 and not rule.paths and len(rule.names) <= 1:
            key = (rule.groups[0], rule.resources[0], rule.names)
            known = merged.get(key)
            merged[key] = replace(known, verbs=known.verbs + rule.verbs) if known else rule
        else:
            rest.append(rule)
    return [*rest, *merged.values()]


def printed(rule: Rule) -> str:
    """The escalation error shows rules in this form (rbac/v1 PolicyRule's CompactString)."""
    parts = [
        ("APIGroups", rule.groups),
        ("Resources", rule.resources),
        ("NonResourceURLs", rule.paths),
        ("ResourceNames", rule.names),
        ("Verbs", rule.verbs),
    ]
    shown = [f"{name}:[{' '.join(map(_quoted, values))}]" for name, values in parts if values]
    return f"{{{', '.join(shown)}}}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class Grant(NamedTuple):
    """`source` names binding, role and subject; `missing` is a role that there is not, kind and name."""

    source: str
    rules: Sequence[Rule]
    missing: tuple[str, str] | None = None


class _Binding(NamedTuple):
    key: Key
    role: tuple[str, str]  # kind and name
    subjects: tuple[tuple[_Who, str], ...]  # who, and the subject's text in reasons


class Bindings:
    """Keeps the roles and bindings of a store, up to date with it."""

    def __init__(self, store: Store) -> None:
        self._following = ChangeTracker(store, _RESOURCES)
        self._roles: dict[Key, tuple[Rule, ...]] = {}
        self._bindings: dict[Key, _Binding] = {}
        self._of: dict[tuple[str, _Who], dict[Key, None]] = {}  # (namespace, who) -> bindings
        self._generation = 0

    def refresh(self) -> int:
        """Takes in what has changed; the number grows with every change."""
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
        """An empty `namespace` stands for the bindings of the cluster."""
        asked: list[_Who] = [("User", user.name), *(("Group", group) for group in user.groups)]
        found = {key for who in asked for key in self._of.get((namespace, who), ())}
        for key in sorted(found):
            yield self._grant(self._bindings[key], frozenset(asked))

    def _grant(self, binding: _Binding, asked: frozenset[_Who]) -> Grant:
        subject = next(text for who, text in binding.subjects if who in asked)
        kind, name = binding.role
        rules = self.rules_of_role(kind, name, binding.key.namespace)
        if rules is None:
            return Grant("", (), (kind, name))
        what, place = _kind_and_place(binding.key)
        return Grant(f'{what} "{place}" of {kind} "{name}" to {subject}', rules)

    def rules_of_role(self, kind: str, name: str, namespace: str) -> Sequence[Rule] | None:
        """A binding in `namespace` refers to the role; None if there is none."""
        self.refresh()
        if kind == "ClusterRole":
            return self._roles.get(Key(CLUSTER_ROLES, "", name))
        return self._roles.get(Key(ROLES, namespace, name)) if kind == "Role" else None


def missing_role(kind: str, name: str) -> str:
    if kind not in {"Role", "ClusterRole"}:
        return f'unsupported role reference kind: "{kind}"'
    return f'{kind.lower()}.{GROUP} "{name}" not found'


def _kind_and_place(key: Key) -> tuple[str, str]:
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


class _Answer(NamedTuple):
    """Decisions about single names are in `named`; `general` is for all others."""

    general: Decision
    named: dict[str, Decision]


class _UserRules:
    """Rights of one user in one namespace are worked out as they are asked for, and remembered."""

    def __init__(self, grants: Sequence[Grant]) -> None:
        self._grants = grants
        self._answers: TwoGenerationCache[_What, _Answer] = TwoGenerationCache(_QUESTIONS)
        self._paths: TwoGenerationCache[tuple[str, str], Decision] = TwoGenerationCache(_QUESTIONS)
        self._refused = _refused(grants)

    def decide(self, info: RequestInfo) -> Decision:
        if not info.is_resource:
            return self._decide_path(info.verb, info.path)
        what = (info.verb, info.group, info.resource, info.subresource)
        answer = self._answers.get(what)
        if answer is None:
            answer = self._answer(what)
            self._answers.put(what, answer)
        return answer.named.get(info.name, answer.general)

    def _answer(self, what: _What) -> _Answer:
        named: dict[str, Decision] = {}
        for grant in self._grants:
            allowed = Decision(True, f"RBAC: allowed by {grant.source}")
            for rule in grant.rules:
                if not rule.allows_kind(*what):
                    continue
                if not rule.names:
                    return _Answer(allowed, named)
                for name in rule.names:
                    named.setdefault(name, allowed)
        return _Answer(self._refused, named)

    def _decide_path(self, verb: str, path: str) -> Decision:
        found = self._paths.get((verb, path))
        if found is None:
            allowing = (
                grant for grant in self._grants for rule in grant.rules if rule.allows_path(verb, path)
            )
            grant = next(allowing, None)
            found = Decision(True, f"RBAC: allowed by {grant.source}") if grant else self._refused
            self._paths.put((verb, path), found)
        return found

    def rules(self) -> Rules:
        rules = [rule for grant in self._grants for rule in grant.rules]
        return Rules(
            tuple(_without(rule, "nonResourceURLs") for rule in rules if rule.resources),
            tuple(_path_rule(rule) for rule in rules if rule.paths),
            error=_aggregate(self._grants),
        )

    def held(self) -> tuple[list[Rule], Sequence[tuple[str, str]]]:
        missing = [grant.missing for grant in self._grants if grant.missing is not None]
        return [rule for grant in self._grants for rule in grant.rules], missing


class RBACAuthorizer:
    """Allows what a role bound to the user allows; has no opinion otherwise."""

    def __init__(self, bindings: Bindings) -> None:
        self.bindings = bindings
        self._generation = 0
        self._by_user: TwoGenerationCache[tuple[str, tuple[str, ...], str], _UserRules] = TwoGenerationCache(
            _USERS
        )

    def authorize(self, user: User, info: RequestInfo) -> Decision:
        return self._rules_of(user, info.namespace).decide(info)

    def rules(self, user: User, namespace: str) -> Rules:
        return self._rules_of(user, namespace).rules()

    def held(self, user: User, namespace: str) -> tuple[list[Rule], Sequence[tuple[str, str]]]:
        """Returns the rules, and kind and name of roles that there are not.

        An empty namespace stands for the whole cluster.
        """
        return self._rules_of(user, namespace).held()

    def _rules_of(self, user: User, namespace: str) -> _UserRules:
        generation = self.bindings.refresh()
        if generation != self._generation:
            self._generation, self._by_user = generation, TwoGenerationCache(_USERS)
        key = (user.name, user.groups, namespace)
        rules = self._by_user.get(key)
        if rules is None:
            grants = list(self.bindings.grants(user, ""))
            if namespace:
                grants += self.bindings.grants(user, namespace)
            rules = _UserRules(grants)
            self._by_user.put(key, rules)
        return rules


def _refused(grants: Sequence[Grant]) -> Decision:
    errors = _aggregate(grants)
    return Decision(False, f"RBAC: {errors}") if errors else NO_OPINION


def _aggregate(grants: Sequence[Grant]) -> str:
    return listed(missing_role(*grant.missing) for grant in grants if grant.missing is not None)


def _without(rule: Rule, field: str) -> dict[str, list[str]]:
    return {name: values for name, values in rule.as_object().items() if name != field}


def _path_rule(rule: Rule) -> dict[str, list[str]]:
    return {"verbs": list(rule.verbs), "nonResourceURLs": list(rule.paths)}
