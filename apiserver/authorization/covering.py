"""Decides whether rules grant no more than others: for escalation checks, and for what default roles lack.

Source: k8s.io/component-helpers/auth/rbac/validation/policy_comparator.go and
k8s.io/kubernetes/pkg/registry/rbac/validation/policy_compact.go, 1.36.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kubeskew.apiserver.authorization.rules import ALL, Rule, path_matches


def uncovered(owned: Sequence[Rule], wanted: Sequence[Rule]) -> list[Rule]:
    """Returns the parts of `wanted` that no rule of `owned` grants, broken down into one verb on one thing
    each.
    """
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
    """Returns a rule as the escalation error shows it (rbac/v1 PolicyRule's CompactString)."""
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
