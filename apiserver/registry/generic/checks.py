"""Checks objects of every kind: metadata, structure, and fields whose gate is off."""

from kubeskew.apimachinery import errors, names
from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.golang.roundtrip import normalise, zero
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import Resource
from kubeskew.apimachinery.schema import Kind
from kubeskew.apiserver import object_meta
from kubeskew.apiserver.decoding.empty_lists import forget_empty_lists
from kubeskew.apiserver.registry.generic.disabled_fields import drop_disabled
from kubeskew.apiserver.registry.generic.strategy import Strategy, StrategyContext


def drop_disabled_fields(new: Object, old: Object | None, ctx: StrategyContext) -> None:
    """Take out what belongs to a gate that is off, unless the old object uses it."""
    if ctx.resource.custom:
        return  # gates have no fields there, and what is known of a schema would outlive it
    if drop_disabled(new, old, ctx.resource.schema, ctx.gates):
        whole = normalise(new, ctx.resource.schema)  # some fields are written though they are absent
        new.clear()
        new.update(whole)


def complete(obj: Object, resource: Resource) -> None:
    """Write the zero values that Go always writes of fields which the strategy took out (`status: {}`)."""
    for name, field in resource.schema.fields.items():
        if not field.omit_empty and name not in obj and field.schema.kind is Kind.OBJECT:
            obj[name] = zero(field.schema)


def as_stored(obj: Object, resource: Resource) -> None:
    """Take from an object what the way through upstream's store takes from it."""
    if not resource.custom:
        forget_empty_lists(obj, resource.schema)


def check_new(strategy: Strategy, obj: Object, ctx: StrategyContext) -> None:
    """Raise 422 if a new object breaks a rule."""
    found = strategy.metadata_errors(obj, ctx)
    _raise(ctx.resource, obj, strategy.check_new(obj, ctx, found))
    # Not every kind looks at its metadata; what holds for all comes last (rest.BeforeCreate).
    metadata, segment, namespaced = obj["metadata"], names.path_segment, ctx.resource.namespaced
    if not found and strategy.checks_metadata(ctx):  # kinds have stricter rules for everything but names
        _raise(ctx.resource, obj, object_meta.validate_object_name(metadata, segment))
    else:
        _raise(ctx.resource, obj, object_meta.validate_object_meta(metadata, namespaced, segment, core=False))


def check_change(strategy: Strategy, new: Object, old: Object, ctx: StrategyContext) -> None:
    """Raise 422 if a change breaks a rule."""
    changed = object_meta.validate_object_meta_update(new["metadata"], old["metadata"])
    namespaced = ctx.resource.namespaced
    common = object_meta.validate_object_meta(new["metadata"], namespaced, names.path_segment, core=False)
    again = list(changed)  # by the kind, which has stricter rules for finalizers
    if strategy.core_metadata:
        again += object_meta.validate_standard_finalizers(new["metadata"])
    _raise(ctx.resource, new, [*common, *changed, *strategy.check_change(new, old, ctx, again)])


def _raise(resource: Resource, obj: Object, problems: list[FieldError]) -> None:
    if problems:
        kind = resource.group_kind
        if resource.custom:  # an object of another kind is called what it says it is
            kind = errors.GroupKind(kind.group, obj.get("kind") or kind.kind)
        raise errors.invalid(kind, obj["metadata"].get("name") or "", problems)
