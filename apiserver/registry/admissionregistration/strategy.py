"""Webhook configurations, admission policies and their bindings: defaults, strategies, cells of tables.

The writer of a policy or a binding needs the right to read the parameters that it refers to.

Sources: pkg/apis/admissionregistration/v1alpha1/defaults.go,
k8s.io/kubernetes/pkg/registry/admissionregistration/*/strategy.go and authz.go,
pkg/printers/internalversion/printers.go, 1.36.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from kubeskew.apimachinery.field import FieldError, forbidden
from kubeskew.apimachinery.go_formats import label_selector_text
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.http.request import RequestInfo
from kubeskew.apiserver.registry.admissionregistration import expression_checks
from kubeskew.apiserver.registry.admissionregistration.validation import (
    Checks,
    WebhookValidationOptions,
    binding_errors,
    mutating_policy_errors,
    validating_policy_errors,
    webhooks_errors,
)
from kubeskew.apiserver.registry.defaulting import DefaultingContext, each, fill_null, struct
from kubeskew.apiserver.registry.generic.builtin import MetadataKeptStatus, WithGenerationConditionalUpdate
from kubeskew.apiserver.registry.generic.strategy import Check, Strategy, StrategyContext
from kubeskew.apiserver.registry.shared.references import default_service_port
from kubeskew.apiserver.registry.tables.cells import UNSET, Cells, Subject
from kubeskew.apiserver.user import User

_GROUP = "admissionregistration.k8s.io"


def _selectors(obj: Object) -> None:
    struct(obj, "namespaceSelector")
    struct(obj, "objectSelector")


def _webhook(webhook: Object) -> None:
    fill_null(webhook, failurePolicy="Fail", matchPolicy="Equivalent", timeoutSeconds=10)
    _selectors(webhook)
    for rule in each(webhook, "rules"):
        fill_null(rule, scope="*")
    default_service_port(struct(webhook, "clientConfig"))


def default_validating_webhooks(obj: Object, _: DefaultingContext) -> None:
    for webhook in each(obj, "webhooks"):
        _webhook(webhook)


def default_mutating_webhooks(obj: Object, ctx: DefaultingContext) -> None:
    default_validating_webhooks(obj, ctx)
    for webhook in each(obj, "webhooks"):
        fill_null(webhook, reinvocationPolicy="Never")


def _match_resources(match: Object | None) -> None:
    if match is None:
        return
    fill_null(match, matchPolicy="Equivalent")
    _selectors(match)
    for rule in each(match, "resourceRules", "excludeResourceRules"):
        fill_null(rule, scope="*")


def default_admission_policy(obj: Object, _: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    fill_null(spec, failurePolicy="Fail")
    _match_resources(spec.get("matchConstraints"))


def default_admission_binding(obj: Object, _: DefaultingContext) -> None:
    _match_resources(struct(obj, "spec").get("matchResources"))


def default_admission_binding_alpha(obj: Object, ctx: DefaultingContext) -> None:
    default_admission_binding(obj, ctx)
    reference = obj["spec"].get("paramRef")
    if reference is not None:
        fill_null(reference, parameterNotFoundAction="Deny")


def param_kind_errors(obj: Object, ctx: StrategyContext) -> Iterator[FieldError]:
    kind = (obj.get("spec") or {}).get("paramKind")
    if kind is None or _is_allowed(ctx, kind, "get", "*", "*"):
        return
    named = f"kind={kind.get('kind')}, apiVersion={kind.get('apiVersion')}"
    text = f'must have "get" permission on all objects of the referenced paramKind ({named})'
    yield forbidden("spec.paramKind", f"user {_shown(ctx.user)} {text}")


def param_ref_errors(obj: Object, policies: str, ctx: StrategyContext) -> Iterator[FieldError]:
    """The writer of a binding must be allowed to get, or list, what the paramRef points to. `policies` is
    their plural."""
    spec = obj.get("spec") or {}
    reference = spec.get("paramRef")
    if reference is None:
        return
    policy = ctx.get_entry(f"{policies}.{_GROUP}", "", spec.get("policyName") or "") or {}
    kind, name = (policy.get("spec") or {}).get("paramKind"), reference.get("name") or ""
    verb = "get" if name else "list"
    if not _is_allowed(ctx, kind, verb, reference.get("namespace") or "", name):
        text = f'does not have "{verb}" permission on the object referenced by paramRef'
        yield forbidden("spec.paramRef", f"user {_shown(ctx.user)} {text}")


def _is_allowed(ctx: StrategyContext, kind: Object | None, verb: str, namespace: str, name: str) -> bool:
    if ctx.authorize is None:
        return True
    group = version = resource = "*"
    if kind is not None:
        group, _, version = (kind.get("apiVersion") or "").rpartition("/")
        found = ctx.catalogue.by_kind(group, version, kind.get("kind") or "")
        resource = found.plural if found is not None else "*"
    info = RequestInfo(True, "", verb, group, version, resource, namespace=namespace, name=name)
    return ctx.authorize(ctx.user, info).allowed


def _shown(user: User) -> str:
    extra = " ".join(f"{name}:[{' '.join(values)}]" for name, values in sorted(user.extra.items()))
    return f"&{{{user.name} {user.uid} [{' '.join(user.groups)}] map[{extra}]}}"


class ValidatingWebhooksStrategy(WithGenerationConditionalUpdate):
    counts_empty_lists = True
    update_checks = (Check.METADATA, Check.STRUCTURE, Check.CHANGE)
    core_metadata = False
    mutating = False
    weight = 16

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return self._errors(obj, ctx, None)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return self._errors(new, ctx, old)

    def _errors(self, obj: Object, ctx: StrategyContext, old: Object | None) -> list[FieldError]:
        known = expression_checks.webhook_expressions(old or {})
        check = expression_checks.condition_check(ctx.features.expressions, known)
        lenient = WebhookValidationOptions.of(old) if old is not None else None
        return list(webhooks_errors(obj, check, mutating=self.mutating, lenient=lenient))


class MutatingWebhooksStrategy(ValidatingWebhooksStrategy):
    mutating = True


class _PolicyStrategy(WithGenerationConditionalUpdate, ABC):
    """Writers of a policy must be allowed to read its parameters."""

    weight = 16
    mutating: ClassVar[bool] = False

    @abstractmethod
    def errors(self, obj: Object, checks: Checks) -> Iterator[FieldError]: ...

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        checks = self._checks(obj.get("spec") or {}, None, ctx)
        return list(self.errors(obj, checks)) or list(param_kind_errors(obj, ctx))

    def _checks(self, spec: Object, old: Object | None, ctx: StrategyContext) -> Checks:
        checks = expression_checks.policy_checks(ctx.features.expressions, spec, old, mutating=self.mutating)
        return replace(checks, longer_texts=ctx.features.admission.longer_texts)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        spec, was = new.get("spec") or {}, old.get("spec") or {}
        checks = self._checks(spec, was, ctx)
        found = list(self.errors(new, checks))
        if found or spec.get("paramKind") == was.get("paramKind"):
            return found
        return list(param_kind_errors(new, ctx))


class ValidatingPolicyStrategy(_PolicyStrategy):
    status: ClassVar[type[Strategy]] = MetadataKeptStatus

    def errors(self, obj: Object, checks: Checks) -> Iterator[FieldError]:
        return validating_policy_errors(obj, checks)


class MutatingPolicyStrategy(_PolicyStrategy):
    mutating = True

    def errors(self, obj: Object, checks: Checks) -> Iterator[FieldError]:
        return mutating_policy_errors(obj, checks)


class ValidatingBindingStrategy(WithGenerationConditionalUpdate):
    validating: ClassVar[bool] = True
    policies: ClassVar[str] = "validatingadmissionpolicies"

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        found = list(binding_errors(obj, ctx.features.admission, validating=self.validating))
        return found or list(param_ref_errors(obj, self.policies, ctx))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        found = list(binding_errors(new, ctx.features.admission, validating=self.validating))
        spec, was = new.get("spec") or {}, old.get("spec") or {}
        same = all(spec.get(name) == was.get(name) for name in ("paramRef", "policyName"))
        return found if found or same else list(param_ref_errors(new, self.policies, ctx))


class MutatingBindingStrategy(ValidatingBindingStrategy):
    validating = False
    policies = "mutatingadmissionpolicies"


def webhook_configuration_cells(subject: Subject) -> Cells:
    return {"Webhooks": subject.count("webhooks")}


def admission_policy_cells(subject: Subject) -> Cells:
    kind = subject.at("spec", "paramKind")
    return {
        "Validations": subject.count("spec", "validations"),
        "Mutations": subject.count("spec", "mutations"),
        "ParamKind": UNSET if kind is None else f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}",
    }


def admission_policy_binding_cells(subject: Subject) -> Cells:
    reference = subject.at("spec", "paramRef") or {}
    parameters = UNSET
    if reference.get("name"):
        parameters = f"{reference.get('namespace') or '*'}/{reference['name']}"
    elif reference.get("selector") is not None:
        parameters = label_selector_text(reference["selector"])
    return {"PolicyName": subject.text("spec", "policyName"), "ParamRef": parameters}
