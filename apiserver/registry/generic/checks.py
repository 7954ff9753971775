"""Checks objects of every kind: metadata, structure, fields whose gate is off, owner references.

Source: k8s.io/apiserver/pkg/endpoints/handlers/rest.go (dedupOwnerReferencesAndAddWarning), 1.36.
"""

import re
from dataclasses import replace
from typing import Any

from kubeskew.apimachinery import errors, names
from kubeskew.apimachinery.field import ErrorType, FieldError, InternalValue, Named, Stringer, Unquoted
from kubeskew.apimachinery.golang.field_order import in_order
from kubeskew.apimachinery.golang.roundtrip import normalise, zero
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import Resource
from kubeskew.apimachinery.schema import Kind
from kubeskew.apiserver import object_meta
from kubeskew.apiserver.decoding import go_json
from kubeskew.apiserver.decoding.decoder import forget_empty_lists
from kubeskew.apiserver.registry.declarative.enforcement import with_declared
from kubeskew.apiserver.registry.generic.disabled_fields import drop_disabled
from kubeskew.apiserver.registry.generic.given_values import schema_at, with_given
from kubeskew.apiserver.registry.generic.go_syntax import in_go_syntax, internal_nil
from kubeskew.apiserver.registry.generic.strategy import Strategy, StrategyContext

_TEXT = (
    ".metadata.ownerReferences contains duplicate entries{}; API server dedups owner references in 1.20+, "
    "and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
)
_IN_BYTES = re.compile(r"((?:(?:name|prefix) part )?must be no more than (?:63|253)) bytes")
_LABEL_KEY, _QUALIFIED_NAME = "a valid label key ", "a qualified name "
_AFTER = " after mutating admission happens"


def deduplicate(obj: Object, warnings: list[str], *, mutated: bool = False) -> None:
    """Drops references that are equal to an earlier one; `mutated`: mutating admission has run."""
    references = obj["metadata"].get("ownerReferences") or []
    if len(references) < 2:
        return
    kept: dict[frozenset[tuple[str, Any]], Object] = {}  # there may be tens of thousands
    twice: list[str] = []
    for reference in references:
        said = frozenset(reference.items())
        if said in kept:
            twice.append(reference.get("uid", ""))
        else:
            kept[said] = reference
    if twice:
        obj["metadata"]["ownerReferences"] = list(kept.values())
        warnings.append(_TEXT.format(_AFTER if mutated else "") + ", ".join(dict.fromkeys(twice)))


def drop_disabled_fields(new: Object, old: Object | None, ctx: StrategyContext) -> None:
    """Fields of a gate that is off go, unless the old object uses it."""
    if ctx.resource.custom:
        return  # gates have no fields there, and the cache by schema would outlive the schema
    if drop_disabled(new, old, ctx.resource.schema, ctx.gates):
        whole = normalise(new, ctx.resource.schema)  # some fields are written though they are absent
        new.clear()
        new.update(whole)


def complete(obj: Object, resource: Resource) -> None:
    """Go always writes the zero values of some fields, which the strategy took out (`status: {}`)."""
    for name, field in resource.schema.fields.items():
        if not field.omit_empty and name not in obj and field.schema.kind is Kind.OBJECT:
            obj[name] = zero(field.schema)


def as_stored(obj: Object, resource: Resource) -> None:
    """Empty lists of built-in kinds go, as on the way through upstream's store."""
    if not resource.custom:
        forget_empty_lists(obj, resource.schema)


def check_new(strategy: Strategy, obj: Object, ctx: StrategyContext) -> None:
    """Raises 422 if a rule is broken."""
    found = strategy.metadata_errors(obj, ctx)
    _raise(ctx, obj, _declared(strategy.check_new(obj, ctx, found), obj, None, ctx))
    # Not every kind looks at its metadata; what holds for all comes last (rest.BeforeCreate).
    metadata, segment, namespaced = obj["metadata"], names.path_segment, ctx.resource.namespaced
    if not found and strategy.checks_metadata(ctx):  # kinds have stricter rules for everything but names
        _raise(ctx, obj, object_meta.validate_object_name(metadata, segment))
    else:
        _raise(ctx, obj, object_meta.validate_object_meta(metadata, namespaced, segment, core=False))


def check_change(strategy: Strategy, new: Object, old: Object, ctx: StrategyContext) -> None:
    """Raises 422 if a rule is broken."""
    changed = object_meta.validate_object_meta_update(new["metadata"], old["metadata"])
    namespaced = ctx.resource.namespaced
    common = object_meta.validate_object_meta(new["metadata"], namespaced, names.path_segment, core=False)
    again = list(changed)  # by the kind, which has stricter rules for finalizers
    if strategy.core_metadata:
        again += object_meta.validate_standard_finalizers(new["metadata"])
    own = _declared(strategy.check_change(new, old, ctx, again), new, old, ctx)
    _raise(ctx, new, [*common, *changed, *own])


def _declared(
    problems: list[FieldError], new: Object, old: Object | None, ctx: StrategyContext
) -> list[FieldError]:
    resource, table, requested = ctx.resource, ctx.catalogue, None
    if ctx.request_version not in ("", resource.version):
        requested = table.resource(ctx.request_group or resource.group, ctx.request_version, resource.plural)
    features = ctx.features.declarative
    return with_declared(problems, new, old, resource, features, ctx.gates, requested, table)


def _raise(ctx: StrategyContext, obj: Object, problems: list[FieldError]) -> None:
    if problems:
        resource = ctx.resource
        if not resource.custom:
            given = with_given(problems, resource.schema, ctx.given, ctx.gates)
            problems = [_printed(problem, ctx) for problem in given]
        elif not ctx.features.internal.escapes:
            nil = internal_nil("")
            problems = [replace(each, value=nil) if each.value is None else each for each in problems]
        if resource.custom and ctx.features.requests.old_lengths:
            problems = [_of_length(problem) for problem in problems]
        kind = resource.group_kind
        if resource.custom:  # an object of another kind is reported by its own kind
            kind = errors.GroupKind(kind.group, obj.get("kind") or kind.kind)
        raise errors.invalid(kind, obj["metadata"].get("name") or "", problems)


def _printed(problem: FieldError, ctx: StrategyContext) -> FieldError:
    """Values are printed as Go prints them: maps sorted, structs in the order of their fields."""
    value = problem.value
    if not ctx.features.requests.label_key_texts:
        problem = _of_qualified_names(problem)
    as_json = ctx.features.internal.escapes
    if isinstance(value, InternalValue):
        shown = ctx.features.internal.shown(value.value, value.sort)
        return replace(problem, value=internal_nil(value.sort) if shown is None and not as_json else shown)
    if isinstance(value, str):
        return _escaped(problem, value, ctx)
    if not as_json and (value is None or isinstance(value, dict | list)):
        schema = schema_at(ctx.resource.schema, problem.path)
        shown = in_go_syntax(value, schema, ctx.resource.group)
        if isinstance(shown, Unquoted):
            return replace(problem, value=shown)
    if not isinstance(value, dict | list):
        return problem
    schema = schema_at(ctx.resource.schema, problem.path)
    if schema is not None and schema.kind is Kind.LIST and isinstance(value, dict):
        schema = schema.items
    return replace(problem, value=in_order(value, schema))


def _of_length(problem: FieldError) -> FieldError:
    """A text that is longer than a definition allows."""
    if problem.type is not ErrorType.TOO_LONG or problem.path.startswith("metadata"):
        return problem
    return replace(problem, detail=re.sub(r"more than (\d+) bytes?$", r"longer than \1", problem.detail))


def _of_qualified_names(problem: FieldError) -> FieldError:
    detail = problem.detail
    if match := _IN_BYTES.match(detail):
        return replace(problem, detail=f"{match[1]} characters{detail[match.end() :]}")
    if detail.startswith(_LABEL_KEY):
        return replace(problem, detail=_QUALIFIED_NAME + detail.removeprefix(_LABEL_KEY))
    return problem


def _escaped(problem: FieldError, value: str, ctx: StrategyContext) -> FieldError:
    """Values of a list of names have a named type: these are written as JSON, which escapes some signs."""
    if isinstance(value, Stringer) and not ctx.features.internal.escapes:
        return replace(problem, value=Unquoted(str(value)))
    named = isinstance(value, Named)
    known = named or (problem.type is ErrorType.NOT_SUPPORTED and not isinstance(value, Unquoted))
    if not known or go_json.escaped(value) == value or not ctx.features.internal.escapes:
        return problem
    if not named:
        schema = schema_at(ctx.resource.schema, problem.path)
        named = schema is not None and bool(schema.go_name)
    return replace(problem, value=Unquoted(go_json.text_of(str(value)))) if named else problem
