"""Defaults of admission, of custom resource definitions and of API services.

Source: field documentation of 1.37; apiextensions-apiserver pkg/apis/apiextensions/v1/defaults.go.
"""

from kubeskew.apimachinery.defaulting.context import (
    Defaulter,
    DefaultingContext,
    each,
    fill,
    fill_null,
    struct,
)
from kubeskew.apimachinery.errors import Object

_PORT = 443


def _selectors(obj: Object) -> None:
    struct(obj, "namespaceSelector")
    struct(obj, "objectSelector")


def _service(client: Object) -> None:
    if client.get("service") is not None:
        fill_null(client["service"], port=_PORT)


def _webhook(webhook: Object) -> None:
    fill_null(webhook, failurePolicy="Fail", matchPolicy="Equivalent", timeoutSeconds=10)
    _selectors(webhook)
    for rule in each(webhook, "rules"):
        fill_null(rule, scope="*")
    _service(struct(webhook, "clientConfig"))


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


def definition(obj: Object, _: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    names = struct(spec, "names")
    if names.get("kind"):
        fill(names, singular=names["kind"].lower(), listKind=f"{names['kind']}List")
    if spec.get("conversion") is None:
        spec["conversion"] = {"strategy": "None"}
    _service(((spec["conversion"].get("webhook") or {}).get("clientConfig")) or {})


def api_service(obj: Object, _: DefaultingContext) -> None:
    _service(struct(obj, "spec"))


def _policies() -> dict[str, Defaulter]:
    made: dict[str, Defaulter] = {}
    for version in ("v1", "v1beta1", "v1alpha1"):
        group = f"io.k8s.api.admissionregistration.{version}"
        made[f"{group}.ValidatingAdmissionPolicy"] = admission_policy
        made[f"{group}.MutatingAdmissionPolicy"] = admission_policy
        binding = admission_binding_alpha if version == "v1alpha1" else admission_binding
        made[f"{group}.ValidatingAdmissionPolicyBinding"] = binding
        made[f"{group}.MutatingAdmissionPolicyBinding"] = admission_binding
    return made


DEFAULTERS: dict[str, Defaulter] = {
    "io.k8s.api.admissionregistration.v1.ValidatingWebhookConfiguration": validating_webhooks,
    "io.k8s.api.admissionregistration.v1.MutatingWebhookConfiguration": mutating_webhooks,
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition": definition,
    "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService": api_service,
    **_policies(),
}
