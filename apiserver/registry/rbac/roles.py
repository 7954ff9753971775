"""Roles and bindings, of clusters and of namespaces: defaults, validation, strategies and cells of tables.

Sources: pkg/apis/rbac/v1/defaults.go, k8s.io/kubernetes/pkg/apis/rbac/validation/validation.go,
pkg/registry/rbac/*/strategy.go, pkg/printers/internalversion/printers.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery import field, names
from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting import DefaultingContext, each, fill, struct
from kubeskew.apiserver.registry.generic.builtin import CreatedByUpdate, HandwrittenValidation
from kubeskew.apiserver.registry.generic.strategy import Check, StrategyContext
from kubeskew.apiserver.registry.shared.selectors import selector_errors
from kubeskew.apiserver.registry.tables.cells import Cells, Subject, joined

RBAC = "rbac.authorization.k8s.io"
_GROUP = "rbac.authorization.k8s.io"
_SUBJECTS = ("ServiceAccount", "User", "Group")
_CHECKED_TWICE = (
    Check.OWN_RULES,
    Check.OWN_RULES,
    Check.CHANGE,
    Check.METADATA,
    Check.METADATA,
    Check.METADATA_CHANGE,
)


def default_binding(obj: Object, _: DefaultingContext) -> None:
    fill(struct(obj, "roleRef"), apiGroup=RBAC)
    for subject in each(obj, "subjects"):
        if subject.get("kind") in {"User", "Group"}:
            fill(subject, apiGroup=RBAC)


def role_errors(obj: Object, *, namespaced: bool) -> list[FieldError]:
    found: list[FieldError] = []
    for position, rule in enumerate(obj.get("rules") or ()):
        found += _rule(rule, f"rules[{position}]", namespaced=namespaced)
    aggregation = obj.get("aggregationRule")
    if aggregation is not None and not namespaced:
        found += _aggregation(aggregation)
    return found


def _rule(rule: Object, path: str, *, namespaced: bool) -> Iterator[FieldError]:
    urls = rule.get("nonResourceURLs") or []
    if not rule.get("verbs"):
        yield field.required(f"{path}.verbs", "verbs must contain at least one value")
    if urls:
        if namespaced:
            why = "namespaced rules cannot apply to non-resource URLs"
            yield field.invalid(f"{path}.nonResourceURLs", urls, why)
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            why = "rules cannot apply to both regular resources and non-resource URLs"
            yield field.invalid(f"{path}.nonResourceURLs", urls, why)
        return
    if not rule.get("apiGroups"):
        yield field.required(f"{path}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        yield field.required(f"{path}.resources", "resource rules must supply at least one resource")


def _aggregation(aggregation: Object) -> Iterator[FieldError]:
    path, selectors = "aggregationRule.clusterRoleSelectors", aggregation.get("clusterRoleSelectors") or []
    if not selectors:
        why = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        yield field.required(path, why)
    for position, selector in enumerate(selectors):
        wrong = list(selector_errors(selector, f"{path}[{position}]"))
        yield from wrong
        if wrong:
            yield field.invalid(f"{path}[{position}]", None, "invalid label selector.")


def binding_errors(obj: Object, *, namespaced: bool) -> list[FieldError]:
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    found = list(_reference(obj.get("roleRef") or {}, kinds))
    for position, subject in enumerate(obj.get("subjects") or ()):
        found += _subject(subject, f"subjects[{position}]", namespaced=namespaced)
    return found


def binding_update_errors(new: Object, old: Object) -> list[FieldError]:
    if new.get("roleRef") == old.get("roleRef"):
        return []
    reference = new.get("roleRef") or {}
    fields = (("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name"))
    shown = {name: reference.get(own) or "" for name, own in fields}
    return [field.invalid("roleRef", shown, "cannot change roleRef")]


def _reference(reference: Object, kinds: tuple[str, ...]) -> Iterator[FieldError]:
    group, kind, name = (reference.get(attribute) or "" for attribute in ("apiGroup", "kind", "name"))
    if group != _GROUP:
        yield field.not_supported("roleRef.apiGroup", group, (_GROUP,))
    if kind not in kinds:
        yield field.not_supported("roleRef.kind", kind, kinds)
    if not name:
        yield field.required("roleRef.name")
    else:
        yield from (field.invalid("roleRef.name", name, why) for why in names.path_segment(name))


def _subject(subject: Object, path: str, *, namespaced: bool) -> Iterator[FieldError]:
    kind, name, group = (subject.get(attribute) or "" for attribute in ("kind", "name", "apiGroup"))
    if not name:
        yield field.required(f"{path}.name")
    if kind == "ServiceAccount":
        for why in names.dns1123_subdomain(name) if name else ():
            yield field.invalid(f"{path}.name", name, why)
        if group:
            yield field.not_supported(f"{path}.apiGroup", group, ("",))
        if not namespaced and not subject.get("namespace"):
            yield field.required(f"{path}.namespace")
    elif kind in _SUBJECTS:
        if group != _GROUP:
            yield field.not_supported(f"{path}.apiGroup", group, (_GROUP,))
    else:
        yield field.not_supported(f"{path}.kind", kind, _SUBJECTS)


class RoleStrategy(HandwrittenValidation, CreatedByUpdate):
    """Names need only be one segment of a path. Nothing of a role is kept from changing."""

    update_checks = _CHECKED_TWICE

    def name_check(self, name: str, prefix: bool) -> list[str]:
        return names.path_segment(name, prefix)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return role_errors(obj, namespaced=ctx.resource.namespaced)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return []


class BindingStrategy(HandwrittenValidation, CreatedByUpdate):
    """`roleRef` may not change."""

    update_checks = _CHECKED_TWICE

    def name_check(self, name: str, prefix: bool) -> list[str]:
        return names.path_segment(name, prefix)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return binding_errors(obj, namespaced=ctx.resource.namespaced)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return binding_update_errors(new, old)


def role_binding_cells(subject: Subject) -> Cells:
    subjects = subject.items("subjects")

    def names(kind: str) -> list[str]:
        return [subject.get("name", "") for subject in subjects if subject.get("kind") == kind]

    accounts = [
        f"{one.get('namespace', '')}/{one.get('name', '')}"
        for one in subjects
        if one.get("kind") == "ServiceAccount"
    ]
    return {
        "Role": f"{subject.text('roleRef', 'kind')}/{subject.text('roleRef', 'name')}",
        "Users": joined(names("User"), separator=", "),
        "Groups": joined(names("Group"), separator=", "),
        "ServiceAccounts": joined(accounts, separator=", "),
    }
