"""Applies JSON, merge and strategic merge patches, and reads an apply's configuration.

The result of a JSON or merge patch is read as if a client had sent it. That of a strategic merge patch is not
written as JSON in between.

Source: k8s.io/apiserver/pkg/endpoints/handlers/patch.go (jsonPatcher, strategicPatchObject,
applyPatchToObject) and apiextensions-apiserver pkg/registry/customresource/validator.go (ValidateTypeMeta),
1.36.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from kubeskew.apimachinery import errors, field
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.golang import decode_errors
from kubeskew.apimachinery.golang.decode_errors import Repeated, ShapeError, kept_errors
from kubeskew.apimachinery.golang.raw_extensions import plain, raw_fields
from kubeskew.apimachinery.golang.roundtrip import WrongShape, normalise_and_report
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import GroupVersionKind
from kubeskew.apimachinery.schema import Schema
from kubeskew.apiserver.apply.patching import json_patch, strategic
from kubeskew.apiserver.apply.patching.json_patch import apply_json_patch, apply_merge_patch
from kubeskew.apiserver.apply.patching.strategic import load_strategic, merge_strategic
from kubeskew.apiserver.apply.patching.values import show
from kubeskew.apiserver.decoding import decoder
from kubeskew.apiserver.decoding.decoder import Decoded, Parsed, duplicates
from kubeskew.apiserver.decoding.go_json import escaped
from kubeskew.apiserver.http import media_types
from kubeskew.apiserver.http.media_types import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from kubeskew.apiserver.http.request import Request
from kubeskew.apiserver.registry.requests.scope import Scope, check_name
from kubeskew.apiserver.storage.encoding import dumps
from kubeskew.apiserver.structuralschema import Structural
from kubeskew.apiserver.structuralschema.model import structural_of

_IGNORE, _STRICT, _WARN = "Ignore", "Strict", "Warn"
_SCHEME = 'scheme "pkg/api/legacyscheme/scheme.go:30"'
_MAP = "map[string]interface {}"


def patch_type(request: Request, scope: Scope) -> str:
    """Custom resources have no strategic merge patch; raises 415."""
    known = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH]
    if not scope.resource.custom:
        known.insert(2, STRATEGIC_PATCH)
    content_type = request.headers.get("content-type", "").partition(";")[0]  # to the letter
    if content_type not in known:
        raise media_types.unsupported(known)
    return content_type


class Configuration(NamedTuple):
    """An applied configuration has the client's fields and nothing more. `repeated` are YAML's strict
    errors."""

    value: Object
    repeated: Sequence[str]


def read_configuration(body: bytes) -> Configuration:
    """`body` is that of an apply; raises 400."""
    try:
        parsed = decoder.parse(body, APPLY_PATCH)
    except ValueError as error:
        raise errors.bad_request(f"error decoding YAML: error converting YAML to JSON: {error}") from None
    if parsed.value is not None and not isinstance(parsed.value, dict):
        found = decode_errors.found(parsed.value)
        why = f"json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        raise errors.bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {why}")
    return Configuration(parsed.value or {}, parsed.duplicates)


def check_repeated(request: Request, config: Configuration, validation: str) -> None:
    """Repeated keys are reported as the request's fieldValidation says, after the merge. Raises 400."""
    for text in config.repeated if validation != "Ignore" else ():
        if validation == "Strict":
            raise errors.bad_request(f"error strict decoding YAML: error converting YAML to JSON: {text}")
        request.warnings.extend(decoder.lines([text]))


def patched(
    live: Object, body: bytes, content_type: str, validation: str, *, whole: bool, ordered: bool = False
) -> tuple[Any, list[str]]:
    """Fields that are unknown or repeated in the patch itself come with the patched object.

    `whole`: operations of a JSON patch may be about all of `live`. With `ordered`, members of the result
    stand in Go's order if those of `live` do.
    """
    json = content_type == JSON_PATCH
    apply = partial(_changed, whole=whole, ordered=ordered) if json else apply_merge_patch
    if validation == _IGNORE:
        return apply(live, body), []
    strict = (json_patch.read_operations if json else json_patch.read_merge)(body).strict
    return apply(live, body), strict


def _changed(live: Object, body: bytes, *, whole: bool, ordered: bool) -> Any:
    """The outermost object is a map in Go, whose keys are sorted."""
    visited = json_patch.Visited() if ordered else None
    value = apply_json_patch(live, body, whole=whole, visited=visited)
    if visited is not None:
        visited.sort()
    return {name: value[name] for name in sorted(value)} if isinstance(value, dict) else value


def decoded(
    request: Request, scope: Scope, value: Any, validation: str, patch_errors: Sequence[str] = ()
) -> Object:
    """The object is of the scope's kind, with defaults; raises 400 and 422."""
    resource = scope.resource
    if not isinstance(value, dict):
        raise unreadable(value, decoder.no_object(value))
    why = decoder.head_error(value)
    if why is not None:
        raise unreadable(value, why)
    if resource.custom:
        return _custom(request, scope, value, validation, patch_errors)
    _check_kind(request, scope, value, validation, patch_errors)
    result = decode(value, resource.gvk, resource.schema, validation, patch_errors)
    request.warnings.extend(result.warnings)
    result.object.setdefault("metadata", {})
    return scope.services.codec.default(result.object, resource)


def _custom(
    request: Request, scope: Scope, value: Object, validation: str, patch_errors: Sequence[str]
) -> Object:
    """A custom resource has the apiVersion and kind that the patch gave it.

    Its metadata is read in any case, the rest only of what is of the resource's group and kind.
    """
    resource = scope.resource
    api_version, kind = value.get("apiVersion") or "", value.get("kind") or ""
    if not kind:
        raise unreadable(value, f"Object 'Kind' is missing in '{dumps(value).decode()}'")
    is_own = (api_version.rpartition("/")[0], kind) == (resource.group, resource.kind)
    structural = structural_of(resource) if is_own else Structural.of(None)
    result = decode(value, resource.gvk, resource.schema, validation, patch_errors, structural)
    request.warnings.extend(result.warnings)
    result.object.setdefault("metadata", {})
    obj = scope.services.codec.default(result.object, resource)
    return {**obj, "apiVersion": api_version, "kind": kind}


def decode(
    value: Any,
    gvk: GroupVersionKind,
    schema: Schema,
    validation: str,
    patch_errors: Sequence[str] = (),
    structural: Structural | None = None,
) -> Decoded:
    """Decodes a patched object; raises 422 with the whole object as value.

    `patch_errors` are strict errors that come before those of the object.
    """
    try:
        decoder.check_depth(value, decoder.MAX_OBJECT_DEPTH)  # patches can nest deeper than bodies
    except ValueError as error:
        raise errors.bad_request(str(error)) from None
    if not isinstance(value, dict):
        raise unreadable(value, decoder.no_object(value))
    lenient = _WARN if validation == _STRICT else validation
    try:
        result = decoder.decode_value(Parsed(value), gvk, schema, lenient, structural=structural)
    except StatusError as error:
        raise unreadable(value, _why(error, gvk.kind)) from None
    strict = [*patch_errors, *result.warnings]
    if strict and validation == _STRICT:
        raise unreadable(value, f"strict decoding error: {', '.join(strict)}")
    return Decoded(result.object, strict, gvk)


def _why(error: StatusError, kind: str) -> str:
    return error.message.partition(f"cannot be handled as a {kind}: ")[2] or error.message


def unreadable(value: Any, why: str) -> StatusError:
    problem = field.invalid("patch", escaped(dumps(value).decode()), why)
    return errors.invalid(errors.GroupKind("", ""), "", [problem])


def _check_kind(
    request: Request, scope: Scope, value: Object, validation: str, patch_errors: Sequence[str]
) -> None:
    """Patches may not change the kind. A missing kind is the resource's."""
    resource = scope.resource
    group, _, version = (value.get("apiVersion") or "").rpartition("/")
    if not version and group not in ("", resource.group):
        raise unreadable(value, decoder.missing_version(dumps(value)))
    if not version:
        _read_internally(request, scope, value, validation, patch_errors)
    gvk = GroupVersionKind(group, version, value.get("kind") or resource.kind)
    if (gvk.group, gvk.kind) == (resource.group, resource.kind) and scope.services.table.by_kind(*gvk):
        return
    other = scope.services.table.by_kind(*gvk)
    if other is not None:  # it is read before it is converted
        decode(value, gvk, other.schema, _IGNORE)
    if not decoder.is_registered(gvk, scope.services.table):
        why = f'no kind "{gvk.kind}" is registered for version "{gvk.api_version}" in {_SCHEME}'
    else:
        into = f"{resource.group.partition('.')[0] or 'core'}.{resource.kind}"
        why = f"converting ({gvk.version}.{gvk.kind}) to ({into}): unknown conversion"
    raise unreadable(value, why)


def _read_internally(
    request: Request, scope: Scope, value: Object, validation: str, patch_errors: Sequence[str]
) -> None:
    """Without a version, an object is read as the internal type, whose fields have other names than JSON's.

    Known are the fields of its embedded metadata; no object thus has a name, unless it has it outside.
    """
    resource, kind = scope.resource, value.get("kind") or scope.resource.kind
    if not decoder.is_registered(
        GroupVersionKind(resource.group, resource.version, kind), scope.services.table
    ):
        group = f'the internal version of group "{resource.group}"'
        raise unreadable(value, f'no kind "{kind}" is registered for {group} in {_SCHEME}')
    metadata = resource.schema.fields["metadata"].schema.fields
    unknown = [f'unknown field "{name}"' for name in value if name not in {"kind", "apiVersion", *metadata}]
    strict = kept_errors([*patch_errors, *unknown]) if validation != _IGNORE else []
    if strict and validation == _STRICT:
        raise unreadable(value, f"strict decoding error: {', '.join(strict)}")
    request.warnings.extend(decoder.lines(strict))
    check_name({"metadata": {}}, request.info.name)


def check_custom_kind(scope: Scope, obj: Object) -> None:
    """Patches may neither change the kind of a custom resource nor remove its version.

    Upstream does so when it validates, after the metadata was read and the name checked.
    """
    resource = scope.resource
    api_version, kind = obj["apiVersion"], obj["kind"]
    if not api_version:  # BeforeUpdate asks for its kind (registry/rest/create.go, objectMetaAndKind)
        raise errors.internal("Object 'apiVersion' is missing in 'object has no apiVersion field'")
    problems = []
    if kind != resource.kind:
        problems.append(field.invalid("kind", kind, f"must be {resource.kind}"))
    if api_version != resource.api_version:
        problems.append(field.invalid("apiVersion", api_version, f"must be {resource.api_version}"))
    if problems:
        group_kind = errors.GroupKind(api_version.rpartition("/")[0], kind)
        raise errors.invalid(group_kind, obj["metadata"].get("name", ""), problems)


class Merged(NamedTuple):
    """An object that a strategic merge patch made; `merged` is its map, before it was typed."""

    object: Object
    warnings: list[str]
    merged: Object


def strategically_patched(
    live: Object, body: bytes, gvk: GroupVersionKind, schema: Schema, validation: str
) -> Merged:
    """The patched object is typed; raises StatusError, and 422 with the patch as value.

    A kind that the patch sets is ignored. `validation` is the request's fieldValidation.
    """
    patch = load_strategic(body)
    if not isinstance(patch, dict | None):
        found = decode_errors.found(patch)
        raise errors.bad_request(f"json: cannot unmarshal {found} into Go value of type {_MAP}")
    try:
        strict = [] if validation == "Ignore" else _repeated(body)
        raw = raw_fields(schema)
        merged = merge_strategic(live if raw is None else plain(live), patch, schema)
        decoder.check_depth(merged, decoder.MAX_OBJECT_DEPTH)
        walked, dropped = typed(merged, schema)
        decoder.keep_reset(merged, walked)
        if raw is not None:
            raw.sort(walked)
    except ShapeError as error:
        raise _unreadable(patch, str(error)) from None
    except ValueError as error:
        raise errors.bad_request(str(error)) from None
    if dropped and validation != "Ignore":
        strict += strategic.unknown_fields(merged, schema)
    if strict and validation == "Strict":
        raise _unreadable(patch, f"strict decoding error: {', '.join(strict)}")
    walked["apiVersion"], walked["kind"] = gvk.api_version, gvk.kind
    return Merged(walked, strict, merged)


def typed(merged: Object, schema: Schema) -> tuple[Any, bool]:
    """Makes an object of a Go type; true if the map has fields that the type has not. Raises ShapeError."""
    try:
        return normalise_and_report(merged, schema)
    except WrongShape:
        return normalise_and_report(strategic.fitted(merged, schema), schema)


def _repeated(body: bytes) -> list[str]:
    """Errors are about the patch itself, like `duplicate field "a.b"`."""
    value = decoder.parse(body, "application/json").value
    return kept_errors(duplicates(value)) if isinstance(value, Repeated) else []


def _unreadable(patch: Any, why: str) -> errors.StatusError:
    problem = field.invalid("patch", show(patch), why)
    return errors.invalid(errors.GroupKind("", ""), "", [problem])
