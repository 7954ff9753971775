"""CustomResourceDefinition: defaults and strategy.

Sources: pkg/apis/apiextensions/v1/defaults.go, apiextensions-apiserver
pkg/registry/customresourcedefinition/{strategy,etcd}.go, 1.36.
"""

import copy
from collections.abc import Iterator
from typing import ClassVar

from kubeskew.apimachinery.conditions import is_condition_true
from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver import structuralschema
from kubeskew.apiserver.apiextensions import conditions, validation
from kubeskew.apiserver.registry.defaulting import DefaultingContext, fill, struct
from kubeskew.apiserver.registry.generic.builtin import HandwrittenValidation
from kubeskew.apiserver.registry.generic.strategy import StatusStrategy, Strategy, StrategyContext
from kubeskew.apiserver.registry.shared.references import default_service_port

_PENDING = conditions.condition(
    conditions.TERMINATING,
    "True",
    "InstanceDeletionPending",
    "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
)


def default_definition(obj: Object, _: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    names = struct(spec, "names")
    if names.get("kind"):
        fill(names, singular=names["kind"].lower(), listKind=f"{names['kind']}List")
    if spec.get("conversion") is None:
        spec["conversion"] = {"strategy": "None"}
    default_service_port(((spec["conversion"].get("webhook") or {}).get("clientConfig")) or {})


class DefinitionStatusStrategy(StatusStrategy):
    """The spec stays on a write of the status; metadata changes, as upstream (its own controllers need
    that)."""

    core_metadata = False
    kept_metadata = ()

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        if not (new.get("status") or {}).get("storedVersions"):
            new["status"] = dict(new.get("status") or {})
            _remember_storage(new)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return validation.validate_status(new)

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        only_spec = ctx.features.schemas.status_owns_metadata
        return (("spec",),) if only_spec else (("metadata",), ("spec",))


class DefinitionStrategy(HandwrittenValidation):
    """The server writes the status, including the versions that may be stored."""

    allow_unconditional_update = False
    core_metadata = False
    has_own_delete = True
    weight = 16
    status: ClassVar[type[Strategy]] = DefinitionStatusStrategy

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        obj["status"] = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}}
        _remember_storage(obj)
        _drop_disabled(obj, None, ctx)

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        new["status"] = copy.deepcopy(old.get("status") or {})
        _remember_storage(new)
        _drop_disabled(new, old, ctx)

    def counts_generation(self, ctx: StrategyContext) -> bool:
        return True

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        return (("status",),)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return validation.validate(obj, ctx.features.schemas)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return validation.validate_update(new, old, ctx.features.schemas)

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return structuralschema.warnings(obj, ctx.features.schemas)

    def stays_after_delete(self, obj: Object) -> bool:
        """Finalizers keep a definition after its first delete."""
        return not obj["metadata"].get("deletionTimestamp")

    def mark_deleted(self, obj: Object, ctx: StrategyContext) -> None:
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if is_condition_true(obj, conditions.TERMINATING):
            return
        if conditions.FINALIZER not in finalizers:
            finalizers.append(conditions.FINALIZER)
        conditions.put(obj, _PENDING, ctx.now)


def _drop_disabled(new: Object, old: Object | None, ctx: StrategyContext) -> None:
    """Fields whose gate is off go, unless the definition had some before."""
    schemas = ctx.features.schemas
    if not (schemas.ratcheting or schemas.keeps_optional_old_self):
        rules = [rule for rule in _rules(old or {}) if rule.get("optionalOldSelf") is not None]
        for rule in _rules(new) if not rules else ():
            rule.pop("optionalOldSelf", None)
    if ctx.features.requests.custom_field_selectors:
        return
    if not any(version.get("selectableFields") for version in _versions(old or {})):
        for version in _versions(new):
            version.pop("selectableFields", None)


def _rules(obj: Object) -> Iterator[Object]:
    for version in _versions(obj):
        yield from _rules_below((version.get("schema") or {}).get("openAPIV3Schema"))


def _rules_below(schema: object) -> Iterator[Object]:
    if not isinstance(schema, dict):
        return
    yield from schema.get("x-kubernetes-validations") or ()
    for below in (schema.get("properties") or {}).values():
        yield from _rules_below(below)
    for name in ("additionalProperties", "items"):
        yield from _rules_below(schema.get(name))


def _versions(obj: Object) -> list[Object]:
    return (obj.get("spec") or {}).get("versions") or []


def _remember_storage(obj: Object) -> None:
    """The version that is stored now is added to those that may be stored."""
    for version in _versions(obj):
        if version.get("storage"):
            stored = obj["status"].setdefault("storedVersions", None) or []
            if version["name"] not in stored:
                obj["status"]["storedVersions"] = [*stored, version["name"]]
            return
    obj["status"].setdefault("storedVersions", None)
