"""ResourceQuota: defaults, validation, strategy, cells of tables, and the server's own writes of its usage.

Sources: pkg/apis/core/v1/defaults.go, pkg/apis/core/validation/validation.go (ValidateResourceQuota and what
it calls) and pkg/apis/core/helper/helpers.go, pkg/registry/core/resourcequota/strategy.go, 1.36.
"""

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.field import (
    FieldError,
    InternalValue,
    Named,
    Stringer,
    child,
    invalid,
    key,
    required,
)
from kubeskew.apimachinery.golang.roundtrip import given
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_extended_resource
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.defaulting import DefaultingContext
from kubeskew.apiserver.registry.generic import update as generic_update
from kubeskew.apiserver.registry.generic.builtin import BuiltIn, SpecKeptStatus
from kubeskew.apiserver.registry.generic.registry import WriteRequest
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.requests.scope import RequestServices
from kubeskew.apiserver.registry.shared import amounts
from kubeskew.apiserver.registry.shared.amounts import round_amounts
from kubeskew.apiserver.registry.shared.selectors import NO_OPERATOR
from kubeskew.apiserver.registry.tables.cells import Cells, Subject, quantity
from kubeskew.apiserver.storage.records import Author
from kubeskew.apiserver.user import SERVER

_COMPUTE = ("cpu", "memory")
_POD_COMPUTE = frozenset(
    {*_COMPUTE, *(f"requests.{name}" for name in _COMPUTE), *(f"limits.{name}" for name in _COMPUTE)}
)
_COUNTED = frozenset(
    {
        "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
        "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
    }
)  # fmt: skip
_STANDARD = (
    _POD_COMPUTE
    | _COUNTED
    | {"ephemeral-storage", "requests.ephemeral-storage", "limits.ephemeral-storage", "requests.storage"}
)
_POD_SCOPES = frozenset(
    {"Terminating", "NotTerminating", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity"}
)
_VOLUME_SCOPE = "VolumeAttributesClass"
_SCOPES = _POD_SCOPES | {"BestEffort", _VOLUME_SCOPE}
_EXISTS_ONLY = frozenset(
    {"BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"}
)
_CONFLICTING = (("BestEffort", "NotBestEffort"), ("NotTerminating", "Terminating"))
_NOT_INTEGER = amounts.NOT_INTEGER
_MANAGER = "kube-apiserver"


def default_resource_quota(obj: Object, _: DefaultingContext) -> None:
    round_amounts(obj.get("spec"), "hard")
    round_amounts(obj.get("status"), "hard", "used")


def quota_errors(quota: Object) -> list[FieldError]:
    return [*spec_errors(quota.get("spec") or {}), *status_errors(quota.get("status") or {})]


def spec_errors(spec: Object) -> Iterator[FieldError]:
    hard = spec.get("hard") or {}
    yield from _amounts(hard, "spec.hard")
    scopes = spec.get("scopes") or []
    if scopes:
        yield from _scope_errors(scopes, hard)
    if spec.get("scopeSelector") is not None:
        yield from _selector_errors(spec["scopeSelector"], hard, scopes)


def status_errors(status: Object) -> Iterator[FieldError]:
    for field in ("hard", "used"):
        yield from _amounts(status.get(field) or {}, f"status.{field}")


def update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    yield from spec_errors(spec)
    scopes = spec.get("scopes") or []
    if set(scopes) != set((old.get("spec") or {}).get("scopes") or []):
        yield invalid("spec.scopes", given(spec, "scopes"), IMMUTABLE)


def _amounts(found: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    for name in sorted(found):
        at = key(path, name)
        yield from amounts.name_errors(name, at)
        if "/" not in name and not is_standard(name):
            yield invalid(at, Stringer(name), "must be a standard resource for quota")
        quantity = Quantity.of(found[name])
        if quantity.sign() < 0:
            yield invalid(at, quantity.canonical(), amounts.NOT_NEGATIVE)
        if (name in _COUNTED or is_extended_resource(name)) and quantity.milli_value() % 1000:
            yield invalid(at, quantity.canonical(), _NOT_INTEGER)


def is_standard(name: str) -> bool:
    return name in _STANDARD or name.startswith(amounts.QUOTA_PAGES)


def _applies(scope: str, name: str) -> bool:
    if scope in _POD_SCOPES:
        return name == "pods" or name in _POD_COMPUTE
    if scope == "BestEffort":
        return name == "pods"
    if scope == _VOLUME_SCOPE:
        return name in {"persistentvolumeclaims", "requests.storage"}
    return True


def _unfit(scope: str, hard: Iterable[str]) -> list[str]:
    return [name for name in sorted(hard) if is_standard(name) and not _applies(scope, name)]


def _scope_errors(scopes: list[str], hard: Mapping[str, Any]) -> Iterator[FieldError]:
    at = "spec.scopes"
    for scope in scopes:
        if scope not in _SCOPES:
            yield invalid(at, scopes, "unsupported scope")
        for _ in _unfit(scope, hard):
            yield invalid(at, scopes, "unsupported scope applied to resource")
    for pair in _CONFLICTING:
        if set(pair) <= set(scopes):
            yield invalid(at, scopes, "conflicting scopes")


def _selector_errors(selector: Object, hard: Mapping[str, Any], scopes: list[str]) -> Iterator[FieldError]:
    at = "spec.scopeSelector.matchExpressions"
    expressions = selector.get("matchExpressions") or []
    shown = InternalValue(selector, "core.ScopeSelector")
    for expression in expressions:
        scope = expression.get("scopeName") or ""
        if scope not in _SCOPES:
            yield invalid(child(at, "scopeName"), scope, "unsupported scope")
        for _ in _unfit(scope, hard):
            yield invalid(at, shown, "unsupported scope applied to resource")
        yield from _expression_errors(expression, at)
    named = {expression.get("scopeName") for expression in expressions}
    for pair in _CONFLICTING:
        if set(pair) <= named:
            yield invalid(at, scopes or None, "conflicting scopes")


def _expression_errors(expression: Object, path: str) -> Iterator[FieldError]:
    operator, values = expression.get("operator") or "", expression.get("values") or []
    if expression.get("scopeName") in _EXISTS_ONLY and operator != "Exists":
        yield invalid(child(path, "operator"), Named(operator), _MUST_EXIST)
    if operator in {"In", "NotIn"}:
        if not values:
            text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            yield required(child(path, "values"), text)
    elif operator in {"Exists", "DoesNotExist"}:
        if values:
            text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            yield invalid(child(path, "values"), values, text)
    else:
        yield invalid(child(path, "operator"), Named(operator), NO_OPERATOR)


_MUST_EXIST = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "
    "ResourceQuotaScopeCrossNamespacePodAffinity"
)


async def write_used(services: RequestServices, quota: Object, used: dict[str, str]) -> None:
    """The quota must still be at this revision; raises 404, 409, 422."""
    resource = services.table.by_kind("", "v1", "ResourceQuota")
    if resource is None:
        raise errors.unknown_path()
    registry = services.registry(resource)
    version = services.environment.version
    author = Author(SERVER.name, _MANAGER, str(version), str(version), "")
    metadata = quota["metadata"]
    write = WriteRequest(SERVER, author, metadata["namespace"], "status", requested=resource, verb="update")

    async def transform(current: Object | None) -> Object:
        if current is None:
            raise errors.not_found(resource.group_resource, metadata["name"])
        if current["metadata"]["resourceVersion"] != metadata["resourceVersion"]:
            raise errors.conflict(resource.group_resource, metadata["name"], errors.MODIFIED)
        new = copy.deepcopy(current)
        new["status"] = {**(new.get("status") or {}), "used": used}
        now = timestamp(services.environment.clock.now())
        reset = registry.reset_fields(write)
        return registry.field_manager.update(current, new, _MANAGER, "status", now, reset=reset)

    await generic_update.update(registry, metadata["name"], transform, write)


class QuotaStatus(SpecKeptStatus):
    """Controller and admission write the status of a quota."""

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(status_errors(new.get("status") or {}))


class QuotaStrategy(BuiltIn):
    """The scopes never change."""

    status = QuotaStatus
    returns_deleted_object = True

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return quota_errors(obj)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(update_errors(new, old))


def resource_quota_cells(subject: Subject) -> Cells:
    hard, used = subject.at("status", "hard") or {}, subject.at("status", "used") or {}

    def amounts(*, limits: bool) -> Iterator[str]:
        for name, most in sorted(hard.items()):
            if name.startswith("limits.") is limits:
                yield f"{name}: {quantity(used.get(name))}/{quantity(most)}"

    return {"Request": ", ".join(amounts(limits=False)), "Limit": ", ".join(amounts(limits=True))}
