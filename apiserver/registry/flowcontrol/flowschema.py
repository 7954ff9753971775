"""FlowSchema: defaults, validation, strategy and cells of tables.

Sources: pkg/apis/flowcontrol/v1/defaults.go, pkg/apis/flowcontrol/validation/validation.go,
pkg/registry/flowcontrol/flowschema/strategy.go, 1.36.
"""

from collections.abc import Iterator
from typing import ClassVar

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import (
    FieldError,
    InternalValue,
    child,
    forbidden,
    index,
    invalid,
    not_supported,
    required,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting import DefaultingContext, fill, struct
from kubeskew.apiserver.registry.flowcontrol.prioritylevelconfiguration import (
    ConditionsOnly,
    set_dangling_condition,
)
from kubeskew.apiserver.registry.generic.builtin import WithGeneration
from kubeskew.apiserver.registry.generic.strategy import Check, Strategy, StrategyContext
from kubeskew.apiserver.registry.tables.cells import NONE, Cells, Subject

_METHODS = ("ByNamespace", "ByUser")

_SUBJECTS = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}

_VERBS = (
    "create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch",
)  # fmt: skip

_MAX_PRECEDENCE = 10_000

_NAMESPACES = "each member of this list must be '*' or a DNS-1123 label; "


def default_flow_schema(obj: Object, _: DefaultingContext) -> None:
    fill(struct(obj, "spec"), matchingPrecedence=1000)


def flow_schema_errors(obj: Object) -> Iterator[FieldError]:
    spec, path = obj.get("spec") or {}, "spec.matchingPrecedence"
    precedence = spec.get("matchingPrecedence") or 0
    if precedence <= 0:
        yield invalid(path, precedence, "must be a positive value")
    if precedence > _MAX_PRECEDENCE:
        yield invalid(path, precedence, f"must not be greater than {_MAX_PRECEDENCE}")
    if precedence == 1 and obj["metadata"].get("name") != "exempt":
        yield invalid(path, precedence, "only the schema named 'exempt' may have matchingPrecedence 1")
    method = spec.get("distinguisherMethod")
    if method is not None and method.get("type") not in _METHODS:
        shown = InternalValue(method, "flowcontrol.FlowDistinguisherMethod")
        yield not_supported("spec.distinguisherMethod.type", shown, _METHODS)
    path = "spec.priorityLevelConfiguration.name"
    level = (spec.get("priorityLevelConfiguration") or {}).get("name") or ""
    if not level:
        yield required(path, "must reference a priority level")
    yield from (invalid(path, level, text) for text in (names.dns1123_subdomain(level) if level else ()))
    for position, rule in enumerate(spec.get("rules") or []):
        yield from _rule_errors(rule, index("spec.rules", position))


def _rule_errors(rule: Object, path: str) -> Iterator[FieldError]:
    subjects = rule.get("subjects") or []
    if not subjects:
        yield required(child(path, "subjects"), "subjects must contain at least one value")
    for position, subject in enumerate(subjects):
        yield from _subject_errors(subject, index(child(path, "subjects"), position))
    resources, paths = rule.get("resourceRules") or [], rule.get("nonResourceRules") or []
    if not resources and not paths:
        yield required(path, "at least one of resourceRules and nonResourceRules has to be non-empty")
    for position, resource in enumerate(resources):
        yield from _resource_rule_errors(resource, index(child(path, "resourceRules"), position))
    for position, path_rule in enumerate(paths):
        yield from _path_rule_errors(path_rule, index(child(path, "nonResourceRules"), position))


def _subject_errors(subject: Object, path: str) -> Iterator[FieldError]:
    kind = subject.get("kind") or ""
    if kind not in _SUBJECTS:
        yield not_supported(child(path, "kind"), kind, tuple(sorted(_SUBJECTS)))
        return
    own = _SUBJECTS[kind]
    if subject.get(own) is None:
        yield required(child(path, own), f"{own} is required when subject kind is '{kind}'")
    else:
        named = subject[own]
        name, at = named.get("name") or "", f"{path}.{own}.name"
        if not name:
            yield required(at)
        elif kind == "ServiceAccount" and name != "*":
            yield from (invalid(at, name, text) for text in names.dns1123_subdomain(name))
        if kind == "ServiceAccount":
            yield from _namespace_errors(named.get("namespace") or "", f"{path}.{own}.namespace")
    for other, field in _SUBJECTS.items():
        if field != own and subject.get(field) is not None:
            yield forbidden(child(path, field), f"{field} is forbidden when subject kind is not '{other}'")


def _namespace_errors(namespace: str, path: str) -> Iterator[FieldError]:
    if not namespace:
        yield required(path, "must specify namespace for service account")
    else:
        yield from (invalid(path, namespace, text) for text in names.dns1123_label(namespace))


def _resource_rule_errors(rule: Object, path: str) -> Iterator[FieldError]:
    yield from _verbs_errors(rule.get("verbs") or [], child(path, "verbs"))
    for name, what in (("apiGroups", "api groups"), ("resources", "resources")):
        items, at = rule.get(name) or [], child(path, name)
        if not items:
            yield required(at, f"resource rules must supply at least one {what.removesuffix('s')}")
        elif len(items) > 1 and "*" in items:
            yield invalid(at, items, f"if '*' is present, must not specify other {what}")
    namespaces, at = rule.get("namespaces") or [], child(path, "namespaces")
    if not namespaces and not rule.get("clusterScope"):
        text = "resource rules that are not cluster scoped must supply at least one namespace"
        yield required(at, text)
    elif "*" in namespaces:
        if len(namespaces) > 1:
            yield invalid(at, namespaces, "if '*' is present, must not specify other namespaces")
    else:
        for position, namespace in enumerate(namespaces):
            wrong = names.dns1123_label(namespace)
            yield from (invalid(index(at, position), namespace, _NAMESPACES + text) for text in wrong)


def _path_rule_errors(rule: Object, path: str) -> Iterator[FieldError]:
    yield from _verbs_errors(rule.get("verbs") or [], child(path, "verbs"))
    urls, at = rule.get("nonResourceURLs") or [], child(path, "nonResourceURLs")
    if not urls:
        yield required(at, "nonResourceURLs must contain at least one value")
    elif "*" in urls:
        if len(urls) > 1:
            yield invalid(at, urls, "if '*' is present, must not specify other non-resource URLs")
    else:
        for position, url in enumerate(urls):
            if wrong := _url_error(url):
                yield invalid(index(at, position), url, wrong)


def _url_error(url: str) -> str:
    """A wildcard may be all after a slash; an empty text means that the path is fine."""
    if not url:
        return "must not be empty"
    if not url.startswith("/"):
        return "must start with slash"
    if " " in url:
        return "must not contain white-space"
    if "//" in url:
        return "must not contain double slash"
    stars = url.count("*")
    if stars > 1 or (stars and not url.endswith("/*")):
        return "wildcard can only do suffix matching"
    return ""


def _verbs_errors(verbs: list[str], path: str) -> Iterator[FieldError]:
    if not verbs:
        yield required(path, "verbs must contain at least one value")
    elif len(verbs) > 1 and "*" in verbs:
        yield invalid(path, verbs, "if '*' is present, must not specify other verbs")
    elif "*" not in verbs and not set(verbs) <= set(_VERBS):
        yield not_supported(path, verbs, _VERBS)


class FlowSchemaStrategy(WithGeneration):
    status: ClassVar[type[Strategy]] = ConditionsOnly
    update_checks = (Check.METADATA, Check.STRUCTURE, Check.CHANGE)

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        super().prepare_for_create(obj, ctx)
        if not ctx.dry_run:
            set_dangling_condition(obj, ctx)

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        if new.get("spec") != old.get("spec") and not ctx.dry_run:
            set_dangling_condition(new, ctx)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(flow_schema_errors(obj))


def flow_schema_cells(subject: Subject) -> Cells:
    return {
        "PriorityLevel": subject.text("spec", "priorityLevelConfiguration", "name"),
        "MatchingPrecedence": subject.number("spec", "matchingPrecedence"),
        "DistinguisherMethod": subject.text("spec", "distinguisherMethod", "type", default=NONE),
        "MissingPL": (subject.condition("Dangling") or {"status": "?"}).get("status", ""),
    }
