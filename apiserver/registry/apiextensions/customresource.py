"""Custom resources: the strategy of the objects of a definition.

Source: apiextensions-apiserver pkg/registry/customresource/{strategy,status_strategy,validator}.go, 1.36.
"""

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kubeskew.apimachinery.field import FieldError, invalid
from kubeskew.apimachinery.go_formats import float_text
from kubeskew.apimachinery.names import qualified_name
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver import structuralschema
from kubeskew.apiserver.apiextensions.json_path import JSONPath, selected
from kubeskew.apiserver.apiextensions.table import CustomResource
from kubeskew.apiserver.object_meta import STANDARD_FINALIZERS
from kubeskew.apiserver.registry.generic.strategy import Strategy, StrategyContext, keep
from kubeskew.apiserver.structuralschema.model import structural_of

_UNQUALIFIED = (
    "prefer a domain-qualified finalizer name{} to avoid accidental conflicts with other finalizer writers"
)
_BYTES_PER_UNIT = 2  # of an ordinary object, that take as long as a unit of CEL's cost
_MAX_REPLICAS = 2**31 - 1


class InstanceStrategy(Strategy):
    """Each resource has a strategy of its own, as each version has its own schema."""

    allow_unconditional_update = False
    core_metadata = False
    generation_ignores = frozenset({"metadata"})

    def __init__(self, resource: CustomResource) -> None:
        self.resource = resource
        self.scale = resource.scale
        self.field_labels = resource.selectable
        self._paths = {label: JSONPath(f".{label}") for label in resource.selectable}

    @property
    def effort(self) -> int:
        return self._structural.rule_effort * _BYTES_PER_UNIT

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        if "status" in self.resource.subresources:
            obj.pop("status", None)

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        if "status" in self.resource.subresources:
            keep(new, old, "status")

    def counts_generation(self, ctx: StrategyContext) -> bool:
        return True

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        return (("status",),) if "status" in self.resource.subresources else ()

    def check_new(self, obj: Object, ctx: StrategyContext, metadata: list[FieldError]) -> list[FieldError]:
        wrong = self._wrong_kind(obj)
        return wrong or structuralschema.validate_object(
            obj, self._structural, metadata, self._scale_errors(obj)
        )

    def check_change(
        self, new: Object, old: Object, ctx: StrategyContext, metadata: list[FieldError]
    ) -> list[FieldError]:
        scale = self._scale_errors(new)
        return self._errors(structuralschema.validate_update, new, old, ctx, [metadata, scale])

    def _errors(
        self,
        validate: Callable[..., list[FieldError]],
        new: Object,
        old: Object,
        ctx: StrategyContext,
        others: Sequence[list[FieldError]],
    ) -> list[FieldError]:
        """`validate` puts the errors `others` in their places; forgiven errors become warnings."""
        wrong = self._wrong_kind(new)
        if wrong:
            return wrong
        forgiven: list[FieldError] = []
        if ctx.counted is not None and self._structural.features.ratcheting:
            ctx.counted.ratcheted()
        errors = validate(new, old, self._structural, *others, forgiven)
        ctx.warn(map(str, forgiven))
        return errors

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return _of_finalizers(obj["metadata"].get("finalizers") or ())

    def update_warnings(self, new: Object, old: Object, ctx: StrategyContext) -> list[str]:
        had = old["metadata"].get("finalizers") or ()
        added = [finalizer for finalizer in new["metadata"].get("finalizers") or () if finalizer not in had]
        return _of_finalizers(added)

    def fields(self, obj: Object) -> dict[str, str]:
        metadata = obj.get("metadata", {})
        found = {
            "metadata.name": metadata.get("name", ""),
            "metadata.namespace": metadata.get("namespace", ""),
        }
        return found | {label: selected(obj, path) for label, path in self._paths.items()}

    @property
    def _structural(self) -> structuralschema.Structural:
        structural = structural_of(self.resource)
        if structural is None:
            raise TypeError("a custom resource has a structural schema")
        return structural

    def _wrong_kind(self, obj: Object) -> list[FieldError]:
        resource, errors = self.resource, []
        if obj.get("kind") != resource.kind:
            errors.append(invalid("kind", obj.get("kind") or "", f"must be {resource.kind}"))
        if obj.get("apiVersion") != resource.api_version:
            errors.append(
                invalid("apiVersion", obj.get("apiVersion") or "", f"must be {resource.api_version}")
            )
        return errors

    def _scale_errors(self, obj: Object) -> list[FieldError]:
        """An object that the scale subresource could not show is refused."""
        if self.scale is None:
            return []
        return [*_replicas(obj, self.scale.spec_replicas), *self._scale_status_errors(obj)]

    def _scale_status_errors(self, obj: Object) -> list[FieldError]:
        if self.scale is None:
            return []
        errors = _replicas(obj, self.scale.status_replicas)
        if self.scale.selector:
            _, why = _nested(obj, self.scale.selector, str, "string")
            if why:
                errors.append(invalid(f".{self.scale.selector}", "", why))
        return errors


class InstanceStatusStrategy(InstanceStrategy):
    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        status, managed = new.get("status"), new["metadata"].get("managedFields")
        had = "status" in new
        revision = new["metadata"].get("resourceVersion")
        new.clear()
        new.update(copy.deepcopy(old))
        if had:
            new["status"] = status
        else:
            new.pop("status", None)
        new["metadata"].pop("managedFields", None)
        if managed is not None:
            new["metadata"]["managedFields"] = managed
        if revision is not None:
            new["metadata"]["resourceVersion"] = revision

    def counts_generation(self, ctx: StrategyContext) -> bool:
        return False

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        names = {"spec", "metadata", *self.resource.schema.fields} - {"status", "apiVersion", "kind"}
        return tuple((name,) for name in sorted(names & {"spec", "metadata"}))

    def check_change(
        self, new: Object, old: Object, ctx: StrategyContext, metadata: list[FieldError]
    ) -> list[FieldError]:
        scale = self._scale_status_errors(new)
        return self._errors(structuralschema.validate_status_update, new, old, ctx, [metadata, scale])


def _of_finalizers(names: Iterable[str]) -> list[str]:
    """Names that others might use too are warned of."""
    found = []
    for name in sorted(set(names)):
        problems = qualified_name(name)
        if "/" not in name and name not in STANDARD_FINALIZERS:
            problems = [*problems, _UNQUALIFIED.format(" including a path (/)" if "." in name else "")]
        found += [f'metadata.finalizers: "{name}": {problem}' for problem in problems]
    return found


def _replicas(obj: Object, path: str) -> list[FieldError]:
    value, why = _nested(obj, path, int, "int64")
    if why:
        return [invalid(f".{path}", 0, why)]
    if value is None:
        return []
    if value < 0:
        return [invalid(f".{path}", value, "should be a non-negative integer")]
    if value > _MAX_REPLICAS:
        return [invalid(f".{path}", value, f"should be less than or equal to {_MAX_REPLICAS}")]
    return []


def _nested(obj: Object, path: str, wanted: type, name: str) -> tuple[Any, str]:
    """An empty text means that the value is of the type `wanted`, or that the path ends early."""
    value: Any = obj
    walked = ""
    for part in path.split("."):
        walked = f"{walked}.{part}"
        if value is None:
            return None, ""
        if not isinstance(value, dict):
            return None, _accessor_error(walked, value, "map[string]interface{}")
        if part not in value:
            return None, ""
        value = value[part]
    if not isinstance(value, wanted) or isinstance(value, bool):
        return None, _accessor_error(walked, value, name)
    return value, ""


def _accessor_error(path: str, value: Any, wanted: str) -> str:
    """The wording is that of k8s.io/apimachinery/pkg/apis/meta/v1/unstructured/helpers.go."""
    return f"{path} accessor error: {_go(value)} is of the type {_go_type(value)}, expected {wanted}"


def _go(value: Any) -> str:
    """JSON values are printed as Go's %v prints them."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{_go(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(_go, value))}]"
    return float_text(value) if isinstance(value, float) else str(value)


def _go_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    types = ((str, "string"), (int, "int64"), (float, "float64"), (list, "[]interface {}"))
    named = next((name for kind, name in types if isinstance(value, kind)), "")
    return named or ("<nil>" if value is None else "map[string]interface {}")
