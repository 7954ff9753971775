"""Holds the rules of when containers restart: policies, rules and what a resize does.

Source: pkg/apis/core/validation/validation.go (validateContainerRestartPolicy, validateResizePolicy), 1.36.
"""

from collections.abc import Iterator

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
from kubeskew.apiserver.registry.shared.pod_options import PodOptions

_POLICY_NEEDED = "must specify restartPolicy when restart rules are used"
_POLICIES = ("Always", "Never", "OnFailure")
_OPERATORS = ("In", "NotIn")
_MAX_RULES = 20
_MAX_VALUES = 255
_RESOURCES = ("cpu", "memory")
_RESIZES = ("NotRequired", "RestartContainer")


def regular_policy_errors(container: Object, path: str, options: PodOptions) -> Iterator[FieldError]:
    """Checks a regular container's policy: with rules it may have one of its own."""
    if options.restart_rules:
        yield from _policy_errors(container, path, options)
    elif container.get("restartPolicy") is not None:
        yield forbidden(child(path, "restartPolicy"), "may not be set for non-init containers")


def init_policy_errors(container: Object, path: str, options: PodOptions) -> Iterator[FieldError]:
    """Checks an init container's: Always makes it a sidecar."""
    policy = container.get("restartPolicy")
    if policy is None:
        if container.get("restartPolicyRules") and options.features.init_rules_need_policy:
            yield required(child(path, "restartPolicy"), _POLICY_NEEDED)
    elif options.restart_rules and policy == "Always" and not options.restart_all:
        if container.get("restartPolicyRules"):
            text = "restartPolicyRules are not allowed for init containers with restart policy Always"
            yield forbidden(child(path, "restartPolicyRules"), text)
    elif options.restart_rules:
        yield from _policy_errors(container, path, options)
    elif policy != "Always":
        yield not_supported(child(path, "restartPolicy"), policy, ("Always",))


def _policy_errors(container: Object, path: str, options: PodOptions) -> Iterator[FieldError]:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or []
    at = child(path, "restartPolicy")
    if policy is None:
        if not rules:
            return
        yield required(at, _POLICY_NEEDED)
    elif policy not in _POLICIES:
        yield not_supported(at, policy, _POLICIES)
    at = child(path, "restartPolicyRules")
    if len(rules) > _MAX_RULES:
        yield too_many(at, len(rules), _MAX_RULES)
    actions = ("Restart", "RestartAllContainers") if options.restart_all else ("Restart",)
    for position, rule in enumerate(rules):
        where, action = index(at, position), rule.get("action") or ""
        if action not in actions:
            yield not_supported(child(where, "action"), action, actions)
        yield from _exit_codes(rule.get("exitCodes"), child(where, "exitCodes"))


def _exit_codes(codes: Object | None, path: str) -> Iterator[FieldError]:
    if codes is None:
        yield required(path, "must be specified")
        return
    operator, values = codes.get("operator") or "", codes.get("values") or []
    if operator not in _OPERATORS:
        yield not_supported(child(path, "operator"), operator, _OPERATORS)
    if len(values) > _MAX_VALUES:
        yield too_many(child(path, "values"), len(values), _MAX_VALUES)


def resize_policy_errors(
    policies: list[Object], pod_policy: str, path: str, options: PodOptions
) -> Iterator[FieldError]:
    seen: set[str] = set()
    word = "pod " if options.features.restart_wording else ""
    for position, policy in enumerate(policies):
        resource, restart = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if resource in seen:
            yield duplicate(index(path, position), resource)
        seen.add(resource)
        for value, allowed in ((resource, _RESOURCES), (restart, _RESIZES)):
            if not value:
                yield required(path)
            elif value not in allowed:
                yield not_supported(path, value, allowed)
        if pod_policy == "Never" and restart != "NotRequired":
            text = f"must be 'NotRequired' when {word}`restartPolicy` is 'Never'"
            yield invalid(path, restart, text)
