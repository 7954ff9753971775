"""Webhook configurations, admission policies and their bindings follow these rules.

Source: k8s.io/kubernetes/pkg/apis/admissionregistration/validation/validation.go, 1.36.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import (
    FieldError,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    not_supported,
    required,
    too_many,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.features import AdmissionFeatures
from kubeskew.apiserver.registry.shared.selectors import selector_errors
from kubeskew.apiserver.webhooks.validation import review_version_errors, validate_service, validate_url

OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
FAILURE_POLICIES = ("Fail", "Ignore")
MATCH_POLICIES = ("Equivalent", "Exact")
REINVOCATION_POLICIES = ("IfNeeded", "Never")
_MAX_CONDITIONS = 64

# What is wrong with an expression that must give one of some types: (expression, path) -> errors.
ExpressionCheck = Callable[[str, str], Iterator[FieldError]]
_REVIEWS = ("v1", "v1beta1")
_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_ALL_SIDE_EFFECTS = ("None", "NoneOnDryRun", "Some", "Unknown")
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS = ("Audit", "Deny", "Warn")
# Checks a variable (name, expression, path), and declares it for the expressions after it.
VariableCheck = Callable[[str, str, str], Iterator[FieldError]]
_MAX_AUDIT_ANNOTATIONS = 20
_MAX_VALUE_EXPRESSION = 5 * 1024
_MUTATING_OPERATIONS = ("*", "CONNECT", "CREATE", "UPDATE")
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_RESERVED = frozenset(
    {
        "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if",
        "import", "let", "loop", "package", "namespace", "return", "var", "void", "while",
    }
)  # fmt: skip


def one_of(value: str | None, known: Sequence[str], path: str) -> Iterator[FieldError]:
    if value is None:
        yield required(path)
    elif value not in known:
        yield not_supported(path, value, tuple(known))


def operation_rule_errors(rule: Object, path: str) -> Iterator[FieldError]:
    """`rule` is a RuleWithOperations."""
    operations = rule.get("operations") or []
    at = child(path, "operations")
    if not operations:
        yield required(at)
    if len(operations) > 1 and "*" in operations:
        yield invalid(at, operations, "if '*' is present, must not specify other operations")
    for position, operation in enumerate(operations):
        if operation not in OPERATIONS:
            yield not_supported(index(at, position), operation, OPERATIONS)
    yield from _rule_errors(rule, path)


def _rule_errors(rule: Object, path: str) -> Iterator[FieldError]:
    yield from _wildcard_errors(rule.get("apiGroups") or [], child(path, "apiGroups"), "API groups")
    versions = rule.get("apiVersions") or []
    yield from _wildcard_errors(versions, child(path, "apiVersions"), "API versions")
    for position, version in enumerate(versions):
        if not version:
            yield required(index(child(path, "apiVersions"), position))
    yield from resources_errors(rule.get("resources") or [], child(path, "resources"))
    scope = rule.get("scope")
    if scope is not None and scope not in _SCOPES:
        yield not_supported(child(path, "scope"), scope, _SCOPES)


def _wildcard_errors(values: list[str], path: str, what: str) -> Iterator[FieldError]:
    if not values:
        yield required(path)
    if len(values) > 1 and "*" in values:
        yield invalid(path, values, f"if '*' is present, must not specify other {what}")


def resources_errors(resources: list[str], path: str) -> Iterator[FieldError]:
    """Names may have subresources; one that a wildcard covers may stand neither next to it nor after it."""
    if not resources:
        yield required(path)
    whole: set[str] = set()  # x of x/*
    everywhere: set[str] = set()  # y of */y
    plain = False
    for position, given in enumerate(resources):
        at = index(path, position)
        if not given:
            yield required(at)
            continue
        resource, slash, sub = given.partition("/")
        if not slash:
            plain = given != "*"
            continue
        if resource in whole:
            yield invalid(at, given, f"if '{resource}/*' is present, must not specify {given}")
        if sub in everywhere:
            yield invalid(at, given, f"if '*/{sub}' is present, must not specify {given}")
        if sub == "*":
            whole.add(resource)
        if resource == "*":
            everywhere.add(sub)
    if len(resources) > 1 and "*/*" in resources:
        yield invalid(path, resources, "if '*/*' is present, must not specify other resources")
    if "*" in resources and plain:
        text = "if '*' is present, must not specify other resources without subresources"
        yield invalid(path, resources, text)


def match_resources_errors(match: Object, path: str) -> Iterator[FieldError]:
    yield from one_of(match.get("matchPolicy"), MATCH_POLICIES, child(path, "matchPolicy"))
    for name in ("namespaceSelector", "objectSelector"):
        if match.get(name) is None:
            yield required(child(path, name))
        else:
            yield from selector_errors(match[name], child(path, name))
    for name in ("resourceRules", "excludeResourceRules"):
        for position, rule in enumerate(match.get(name) or []):
            yield from _named_rule_errors(rule, index(child(path, name), position))


def _named_rule_errors(rule: Object, path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for position, name in enumerate(rule.get("resourceNames") or []):
        at = index(child(path, "resourceNames"), position)
        yield from (invalid(at, name, text) for text in names.path_segment(name))
        if name in seen:
            yield duplicate(at, name)
        seen.add(name)
    yield from operation_rule_errors(rule, path)


def conditions_errors(conditions: list[Object], path: str, check: ExpressionCheck) -> Iterator[FieldError]:
    if len(conditions) > _MAX_CONDITIONS:
        yield too_many(path, len(conditions), _MAX_CONDITIONS)
    seen: set[str] = set()
    for position, condition in enumerate(conditions):
        at = index(path, position)
        expression, name = (condition.get("expression") or "").strip(), condition.get("name") or ""
        if not expression:
            yield required(child(at, "expression"))
        else:
            yield from check(expression, child(at, "expression"))
        if not name:
            yield required(child(at, "name"))
            continue
        yield from (invalid(child(at, "name"), name, text) for text in names.qualified_name(name))
        if name in seen:
            yield duplicate(child(at, "name"), name)
        seen.add(name)


@dataclass(frozen=True, slots=True)
class WebhookValidationOptions:
    """An update may have these errors because the old object had them too."""

    side_effects: bool = False
    unknown_reviews: bool = False
    repeated_names: bool = False

    @classmethod
    def of(cls, old: Object) -> "WebhookValidationOptions":
        hooks = old.get("webhooks") or []
        listed = [hook.get("name") for hook in hooks]
        return cls(
            any(hook.get("sideEffects") not in _SIDE_EFFECTS for hook in hooks),
            not all(_is_known(hook.get("admissionReviewVersions") or []) for hook in hooks),
            len(set(listed)) != len(listed),
        )


def webhooks_errors(
    obj: Object, check: ExpressionCheck, *, mutating: bool, lenient: WebhookValidationOptions | None = None
) -> Iterator[FieldError]:
    allowed = lenient or WebhookValidationOptions()
    seen: set[str] = set()
    for position, hook in enumerate(obj.get("webhooks") or []):
        at = index("webhooks", position)
        yield from _webhook_errors(hook, at, check, allowed, mutating=mutating)
        versions = hook.get("admissionReviewVersions")
        yield from _reviews_errors(versions, child(at, "admissionReviewVersions"), allowed)
        name = hook.get("name") or ""
        if name in seen and not allowed.repeated_names:
            yield duplicate(child(at, "name"), name)
        seen.add(name)


def _webhook_errors(
    hook: Object, path: str, check: ExpressionCheck, allowed: WebhookValidationOptions, *, mutating: bool
) -> Iterator[FieldError]:
    yield from fully_qualified_errors(hook.get("name") or "", child(path, "name"))
    for position, rule in enumerate(hook.get("rules") or []):
        yield from operation_rule_errors(rule, index(child(path, "rules"), position))
    yield from _known(hook, "failurePolicy", FAILURE_POLICIES, path)
    yield from _known(hook, "matchPolicy", MATCH_POLICIES, path)
    side_effects = _ALL_SIDE_EFFECTS if allowed.side_effects else _SIDE_EFFECTS
    if hook.get("sideEffects") is None:
        yield required(child(path, "sideEffects"), f"must specify one of {', '.join(side_effects)}")
    yield from _known(hook, "sideEffects", side_effects, path)
    seconds = hook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= 30:
        text = "the timeout value must be between 1 and 30 seconds"
        yield invalid(child(path, "timeoutSeconds"), seconds, text)
    for name in ("namespaceSelector", "objectSelector"):
        if hook.get(name) is not None:
            yield from selector_errors(hook[name], child(path, name))
    if mutating:
        yield from _known(hook, "reinvocationPolicy", REINVOCATION_POLICIES, path)
    yield from client_config_errors(hook.get("clientConfig") or {}, child(path, "clientConfig"))
    conditions = hook.get("matchConditions") or []
    yield from conditions_errors(conditions, child(path, "matchConditions"), check)


def _known(hook: Object, name: str, known: tuple[str, ...], path: str) -> Iterator[FieldError]:
    value = hook.get(name)
    if value is not None and value not in known:
        yield not_supported(child(path, name), value, known)


def client_config_errors(config: Object, path: str) -> Iterator[FieldError]:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from validate_url(child(path, "url"), url)
    elif service is not None:
        yield from validate_service(child(path, "service"), service)


def fully_qualified_errors(name: str, path: str) -> Iterator[FieldError]:
    """The name must have at least three parts (IsFullyQualifiedName)."""
    wrong = names.dns1123_subdomain(name) if name else []
    if not name:
        yield required(path)
    elif wrong:
        yield invalid(path, name, ",".join(wrong))
    elif name.count(".") < 2:
        yield invalid(path, name, "should be a domain with at least three segments separated by dots")


def _is_known(versions: list[str]) -> bool:
    return any(version in _REVIEWS for version in versions)


def _reviews_errors(
    versions: list[str] | None, path: str, allowed: WebhookValidationOptions
) -> Iterator[FieldError]:
    listed = ", ".join(_REVIEWS)
    if not versions:
        yield required(path, f"must specify one of {listed}")
        return
    yield from review_version_errors(versions, path)
    if not _is_known(versions) and not allowed.unknown_reviews:
        yield invalid(path, versions, f"must include at least one of {listed}")


@dataclass(frozen=True, slots=True)
class Checks:
    """Expressions of a policy are compiled by one check per sort of result."""

    condition: ExpressionCheck
    validation: ExpressionCheck
    message: ExpressionCheck
    annotation: ExpressionCheck
    mutation: Mapping[str, ExpressionCheck]
    variable: VariableCheck
    longer_texts: bool = False  # texts name the field: "message must not contain line breaks"


def validating_policy_errors(obj: Object, checks: Checks) -> Iterator[FieldError]:
    spec = obj.get("spec") or {}
    yield from _matching_errors(spec, checks)
    for position, variable in enumerate(spec.get("variables") or []):
        yield from _variable_errors(variable, index("spec.variables", position), checks)
    annotations = spec.get("auditAnnotations") or []
    if not spec.get("validations") and not annotations:
        text = "validations or auditAnnotations must contain at least one item"
        yield required("spec.validations", text)
        yield required("spec.auditAnnotations", text)
        return
    for position, validation in enumerate(spec.get("validations") or []):
        yield from _validation_errors(validation, index("spec.validations", position), checks)
    yield from _annotations_errors(obj, annotations, checks)


def _matching_errors(spec: Object, checks: Checks) -> Iterator[FieldError]:
    yield from one_of(spec.get("failurePolicy"), FAILURE_POLICIES, "spec.failurePolicy")
    if spec.get("paramKind") is not None:
        yield from _param_kind_errors(spec["paramKind"], "spec.paramKind")
    match = spec.get("matchConstraints")
    if match is None:
        yield required("spec.matchConstraints")
    else:
        yield from match_resources_errors(match, "spec.matchConstraints")
        if not match.get("resourceRules"):
            yield required("spec.matchConstraints.resourceRules")
    conditions = spec.get("matchConditions") or []
    yield from conditions_errors(conditions, "spec.matchConditions", checks.condition)


def _param_kind_errors(kind: Object, path: str) -> Iterator[FieldError]:
    api_version, at = kind.get("apiVersion") or "", child(path, "apiVersion")
    if not api_version:
        yield required(at)
    elif api_version.count("/") > 1:
        yield invalid(at, api_version, f"unexpected GroupVersion string: {api_version}")
    else:
        group, _, version = api_version.rpartition("/")
        wrong = names.dns1123_subdomain(group) if group else []
        if wrong:
            yield invalid(at, group, ",".join(wrong))
        if not version:
            yield invalid(at, api_version, "version must be specified")
        elif names.dns1035_label(version):
            yield invalid(at, version, ",".join(names.dns1035_label(version)))
    name, at = kind.get("kind") or "", child(path, "kind")
    if not name:
        yield required(at)
    elif names.dns1035_label(name.lower()):
        wrong = names.dns1035_label(name.lower())
        yield invalid(at, name, f"may have mixed case, but should otherwise match: {','.join(wrong)}")


def _variable_errors(variable: Object, path: str, checks: Checks) -> Iterator[FieldError]:
    name, expression = variable.get("name") or "", variable.get("expression") or ""
    if not name.strip():
        yield required(child(path, "name"), "name is not specified")
    elif _IDENTIFIER.fullmatch(name) is None or name in _RESERVED:
        text = (
            "name is not a valid CEL identifier" if checks.longer_texts else "must be a valid CEL identifier"
        )
        yield invalid(child(path, "name"), name, text)
    if not expression.strip():
        yield required(child(path, "expression"), "expression is not specified")
    else:
        yield from checks.variable(name, expression, child(path, "expression"))


def _validation_errors(validation: Object, path: str, checks: Checks) -> Iterator[FieldError]:
    expression, message = validation.get("expression") or "", validation.get("message") or ""
    computed, reason = validation.get("messageExpression") or "", validation.get("reason")
    named = "message " if checks.longer_texts else ""
    if not expression.strip():
        yield required(child(path, "expression"), "expression is not specified")
    else:
        yield from checks.validation(expression, child(path, "expression"))
    if computed and not computed.strip():
        yield invalid(child(path, "messageExpression"), computed, "must be non-empty if specified")
    elif computed:
        yield from checks.message(computed, child(path, "messageExpression"))
    if message and not message.strip():
        yield invalid(child(path, "message"), message, f"{named}must be non-empty if specified")
    elif _has_breaks(message.strip()):
        yield invalid(child(path, "message"), message, f"{named}must not contain line breaks")
    if reason is not None and reason not in _REASONS:
        yield not_supported(child(path, "reason"), reason, _REASONS)


def _has_breaks(text: str) -> bool:
    return "\n" in text or "\r" in text


def _annotations_errors(obj: Object, annotations: list[Object], checks: Checks) -> Iterator[FieldError]:
    path, name = "spec.auditAnnotations", obj["metadata"].get("name")
    if len(annotations) > _MAX_AUDIT_ANNOTATIONS:
        text = f"must not have more than {_MAX_AUDIT_ANNOTATIONS} auditAnnotations"
        yield invalid(path, annotations, text)
    seen: set[str] = set()
    for position, annotation in enumerate(annotations):
        at, key = index(path, position), annotation.get("key") or ""
        if not name:
            yield invalid(child(at, "key"), key, "requires metadata.name be non-empty")
        else:
            full = f"{name}/{key}"
            yield from (invalid(child(at, "key"), full, text) for text in names.qualified_name(full))
        yield from _value_errors(
            annotation.get("valueExpression") or "", child(at, "valueExpression"), checks
        )
        if key in seen:
            yield duplicate(child(at, "key"), key)
        seen.add(key)


def _value_errors(expression: str, path: str, checks: Checks) -> Iterator[FieldError]:
    if not expression.strip():
        yield required(path, "valueExpression is not specified")
    elif len(expression.strip()) > _MAX_VALUE_EXPRESSION:
        yield required(path, f"must not exceed {_MAX_VALUE_EXPRESSION} bytes in length")
    else:
        yield from checks.annotation(expression, path)


def mutating_policy_errors(obj: Object, checks: Checks) -> Iterator[FieldError]:
    spec = obj.get("spec") or {}
    yield from _matching_errors(spec, checks)
    yield from _mutable_errors(spec.get("matchConstraints") or {}, "spec.matchConstraints")
    for position, variable in enumerate(spec.get("variables") or []):
        yield from _variable_errors(variable, index("spec.variables", position), checks)
    mutations = spec.get("mutations") or []
    if not mutations:
        yield required("spec.mutations", "mutations must contain at least one item")
    for position, mutation in enumerate(mutations):
        yield from _mutation_errors(mutation, index("spec.mutations", position), checks)
    policy = spec.get("reinvocationPolicy")
    yield from one_of(policy or None, REINVOCATION_POLICIES, "spec.reinvocationPolicy")


def _mutable_errors(match: Object, path: str) -> Iterator[FieldError]:
    """Operations that cannot be mutated (deletions) are refused; upstream's path does not name the rule."""
    for rule in match.get("resourceRules") or []:
        for operation in rule.get("operations") or []:
            if operation not in _MUTATING_OPERATIONS:
                yield not_supported(f"{path}.resourceRules.operations", operation, _MUTATING_OPERATIONS)


_FIELDS = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}


def _mutation_errors(mutation: Object, path: str, checks: Checks) -> Iterator[FieldError]:
    kind = mutation.get("patchType") or ""
    if kind not in _FIELDS:
        yield from one_of(kind or None, tuple(_FIELDS), child(path, "patchType"))
        return
    own = _FIELDS[kind]
    for name in _FIELDS.values():
        if name != own and mutation.get(name) is not None:
            text = f"must not be specified when patchType is {kind}"
            yield invalid(child(path, name), f"{{{name}}}", text)
    if mutation.get(own) is None:
        yield required(child(path, own), f"must be specified when patchType is {kind}")
        return
    expression, at = (mutation[own].get("expression") or "").strip(), f"{child(path, own)}.expression"
    if not expression:
        yield required(at)
    else:
        yield from checks.mutation[kind](expression, at)


# --- bindings ----------------------------------------------------------------------------------------------


def binding_errors(obj: Object, features: AdmissionFeatures, *, validating: bool) -> Iterator[FieldError]:
    """Older releases misspell the path of matchResources for one of the two kinds of policy."""
    spec = obj.get("spec") or {}
    policy = spec.get("policyName") or ""
    if not policy:
        yield required("spec.policyName")
    else:
        yield from (invalid("spec.policyName", policy, text) for text in names.dns1123_subdomain(policy))
    if spec.get("paramRef") is not None:
        check = _param_ref_errors if features.parameter_selectors else _param_name_errors
        yield from check(spec["paramRef"], "spec.paramRef")
    if spec.get("matchResources") is not None:
        misspelt = validating and features.misspells_matching
        at = "spec.matchResouces" if misspelt else "spec.matchResources"
        yield from match_resources_errors(spec["matchResources"], at)
        yield from () if validating else _mutable_errors(spec["matchResources"], at)
    if validating and features.policy_actions:
        yield from _actions_errors(spec.get("validationActions") or [], "spec.validationActions")


def _param_name_errors(reference: Object, path: str) -> Iterator[FieldError]:
    name = reference.get("name") or ""
    yield from (invalid(child(path, "name"), name, text) for text in names.path_segment(name))


def _param_ref_errors(reference: Object, path: str) -> Iterator[FieldError]:
    name, selector = reference.get("name") or "", reference.get("selector")
    exclusive = "name and selector are mutually exclusive"
    if name:
        yield from (invalid(child(path, "name"), name, text) for text in names.path_segment(name))
        if selector is not None:
            yield forbidden(child(path, "name"), exclusive)
    if selector is not None:
        yield from selector_errors(selector, child(path, "selector"))
        if name:
            yield forbidden(child(path, "selector"), exclusive)
    if not name and selector is None:
        yield required(path, "one of name or selector must be specified")
    at = child(path, "parameterNotFoundAction")
    yield from one_of(reference.get("parameterNotFoundAction") or None, ("Deny", "Allow"), at)


def _actions_errors(actions: list[str], path: str) -> Iterator[FieldError]:
    if not actions:
        yield required(path, "at least one validation action is required")
    seen: set[str] = set()
    for position, action in enumerate(actions):
        if action not in _ACTIONS:
            yield not_supported(index(path, position), action, _ACTIONS)
        if action in seen:
            yield duplicate(index(path, position), action)
        seen.add(action)
    if {"Deny", "Warn"} <= seen:
        yield invalid(
            path,
            actions,
            "must not contain both Deny and Warn (repeating the same validation failure information in the "
            "API response and headers serves no purpose)",
        )
