"""Sets the defaults of ValidatingAdmissionPolicyBinding objects.

Source: pkg/apis/admissionregistration/v1alpha1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    each,
    fill_null,
    struct,
)
from kubeskew.apiserver.registry.shared.service_references import default_service_port


def _selectors(obj: Object) -> None:
    struct(obj, "namespaceSelector")
    struct(obj, "objectSelector")


def _webhook(webhook: Object) -> None:
    fill_null(webhook, failurePolicy="Fail", matchPolicy="Equivalent", timeoutSeconds=10)
    _selectors(webhook)
    for rule in each(webhook, "rules"):
        fill_null(rule, scope="*")
    default_service_port(struct(webhook, "clientConfig"))


def validating_webhooks(obj: Object, _: DefaultingContext) -> None:
    for webhook in each(obj, "webhooks"):
        _webhook(webhook)


def mutating_webhooks(obj: Object, ctx: DefaultingContext) -> None:
    validating_webhooks(obj, ctx)
    for webhook in each(obj, "webhooks"):
        fill_null(webhook, reinvocationPolicy="Never")


def _match_resources(match: Object | None) -> None:
    if match is None:
        return
    fill_null(match, matchPolicy="Equivalent")
    _selectors(match)
    for rule in each(match, "resourceRules", "excludeResourceRules"):
        fill_null(rule, scope="*")


def admission_policy(obj: Object, _: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    fill_null(spec, failurePolicy="Fail")
    _match_resources(spec.get("matchConstraints"))


def admission_binding(obj: Object, _: DefaultingContext) -> None:
    _match_resources(struct(obj, "spec").get("matchResources"))


def admission_binding_alpha(obj: Object, ctx: DefaultingContext) -> None:
    admission_binding(obj, ctx)
    reference = obj["spec"].get("paramRef")
    if reference is not None:
        fill_null(reference, parameterNotFoundAction="Deny")
