"""PATCH: JSON, merge and strategic merge patches, and server-side apply.

Source: k8s.io/apiserver/pkg/endpoints/handlers/patch.go, 1.36.
"""

from collections.abc import Callable
from typing import Any

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.golang.decode_errors import ShapeError
from kubeskew.apimachinery.golang.field_order import in_order
from kubeskew.apimachinery.golang.raw_extensions import raw_fields
from kubeskew.apimachinery.golang.roundtrip import WrongShape
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.apply.managedfields.field_manager import gvk as gvk_text
from kubeskew.apiserver.apply.managedfields.field_manager import manager_name
from kubeskew.apiserver.apply.patching.json_patch import sort_along
from kubeskew.apiserver.apply.patching.sent_texts import with_sent_texts
from kubeskew.apiserver.apply.patching.strategic import fitted
from kubeskew.apiserver.caching.offload import offload
from kubeskew.apiserver.decoding.decoder import MAX_OBJECT_DEPTH, check_depth
from kubeskew.apiserver.http import parameters
from kubeskew.apiserver.http.media_types import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from kubeskew.apiserver.http.parameters import WriteOptions
from kubeskew.apiserver.http.request import Request, Response
from kubeskew.apiserver.registry.generic import update as generic_update
from kubeskew.apiserver.registry.generic.checks import deduplicate
from kubeskew.apiserver.registry.generic.registry import WriteRequest
from kubeskew.apiserver.registry.requests import patches, responses
from kubeskew.apiserver.registry.requests.patches import (
    Configuration,
    check_repeated,
    patch_type,
    read_configuration,
)
from kubeskew.apiserver.registry.requests.scope import (
    Scope,
    check_name,
    check_namespace,
    in_thread,
    managed,
    read_body,
    write_of,
)
from kubeskew.apiserver.structuralschema.model import structural_of
from kubeskew.apiserver.structuralschema.validation_errors import sorted_maps

# Makes the new object, in the request's version, of the live one.
Patcher = Callable[[Object], Object]
_COPIED = 3 << 20  # bytes that copies may add, however short the patch


async def patch(request: Request, scope: Scope) -> Response:
    """Applies the patch to the object as it is when the change is written: again after a conflict."""
    content_type = patch_type(request, scope)
    form = responses.form_of(request)
    body = await read_body(request)
    apply = content_type == APPLY_PATCH
    options = parameters.patch_options(request, apply=apply)
    write = write_of(request, scope, dry_run=options.dry_run)
    codec, registry = scope.services.codec, scope.registry
    config = await in_thread(body, lambda: read_configuration(body)) if apply else None
    patcher = _patcher(request, scope, body, content_type, options.field_validation, write)

    async def transform(current: Object | None) -> Object:
        if current is None and not apply:  # even of a kind that a PUT may create
            raise errors.not_found(registry.requested_resource(write), request.info.name)
        entry = scope.services.store.get(registry.key(request.info.namespace, request.info.name))
        stored = len(entry.value) if entry is not None else 0
        grown = _COPIED if content_type == JSON_PATCH and b"copy" in body else 0
        return await offload(max(write.size, stored, grown), lambda: made(current))

    def made(current: Object | None) -> Object:
        live = codec.convert(current, scope.resource) if current is not None else None
        if config is not None:
            new = _applied(request, scope, live, config, write, options)
        else:
            new = _patched(request, scope, live or {}, patcher, write, options)
        return codec.convert(new, registry.resource)

    name = request.info.name
    result = await generic_update.update(registry, name, transform, write, force_create=apply)
    size = len(result.value or b"")
    return await offload(size, lambda: responses.written(request, scope, result, form))


# --- the three patches -------------------------------------------------------------------------------------


def _patcher(
    request: Request, scope: Scope, body: bytes, content_type: str, validation: str, write: WriteRequest
) -> Patcher:
    """Patched objects are decoded and defaulted as if they had been sent."""

    def strategic(live: Object) -> Object:
        resource = scope.resource
        found = patches.strategically_patched(live, body, resource.gvk, resource.schema, validation)
        request.warnings.extend(found.warnings)
        write.given = lambda: found.merged
        found.object.setdefault("metadata", {})
        return scope.services.codec.default(found.object, resource)

    def plain(live: Object) -> Object:
        if scope.resource.custom:
            return read(sorted_maps(live))
        warnings = len(request.warnings)
        try:
            obj = read(live)
            if len(request.warnings) == warnings:
                return obj
        except errors.StatusError:
            pass
        del request.warnings[warnings:]
        ordered = in_order(live, scope.resource.schema)  # errors show the order of Go's fields
        try:
            return read(ordered, ordered=True)
        except errors.StatusError as error:
            value = write.given() if write.given is not None else None
            raise with_sent_texts(error, body, value, lambda other: applied(ordered, other)[0]) from None

    def applied(live: Object, body: bytes, *, ordered: bool = True) -> tuple[Any, list[str]]:
        whole = scope.services.features.requests.whole_patches
        return patches.patched(live, body, content_type, validation, whole=whole, ordered=ordered)

    def read(live: Object, *, ordered: bool = False) -> Object:
        value, strict = applied(live, body, ordered=ordered)
        if scope.resource.custom and content_type == MERGE_PATCH:
            value = sorted_maps(value)
        write.given = lambda: value
        raw = None if scope.resource.custom else raw_fields(scope.resource.schema)
        if raw is not None and content_type == JSON_PATCH:
            sort_along(value, body)
        obj = patches.decoded(request, scope, value, validation, strict)
        if raw is not None:
            raw.keep_texts(obj, live)
        return obj

    return strategic if content_type == STRATEGIC_PATCH else plain


def _patched(
    request: Request, scope: Scope, live: Object, patcher: Patcher, write: WriteRequest, options: WriteOptions
) -> Object:
    new = patcher(live)
    check_namespace(new, scope, request.info.namespace)
    check_name(new, request.info.name)
    if scope.resource.custom:
        patches.check_custom_kind(scope, new)
    deduplicate(new, request.warnings)
    return managed(request, scope, live, new, write, options.field_manager)


# --- apply -------------------------------------------------------------------------------------------------


def _applied(
    request: Request,
    scope: Scope,
    live: Object | None,
    config: Configuration,
    write: WriteRequest,
    options: WriteOptions,
) -> Object:

    def merged(value: Object) -> Object:
        return scope.registry.field_manager.apply(
            live,
            value,
            options.field_manager,
            bool(options.force),
            scope.subresource,
            timestamp(scope.services.environment.clock.now()),
            kind=scope.resource.kind,
            api_version=scope.resource.api_version,
            reset=scope.registry.reset_fields(write),
        )

    try:
        new = merged(config.value)
    except WrongShape:  # met when the result is converted for managers of other versions: numbers wrap then
        try:
            new = merged(fitted(config.value, scope.resource.schema))
        except ShapeError as error:
            raise _unconverted(config, str(error)) from None
    check_repeated(request, config, options.field_validation)
    write.given = lambda: new
    obj = _defaulted(scope, live, new) if scope.resource.custom else _converted(scope, new, config)
    raw = None if scope.resource.custom else raw_fields(scope.resource.schema)
    if raw is not None:
        raw.sort(obj)
    uid = obj["metadata"].get("uid")
    if live is None and uid:
        why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise errors.conflict(scope.resource.group_resource, request.info.name, why)
    check_namespace(obj, scope, request.info.namespace)
    check_name(obj, request.info.name)
    return obj


def _converted(scope: Scope, merged: Object, config: Configuration) -> Object:
    """The merged object becomes one of a Go type, with defaults, without JSON in between; raises 500."""
    resource = scope.resource
    try:
        check_depth(merged, MAX_OBJECT_DEPTH)
        obj = patches.typed(merged, resource.schema)[0]
    except ShapeError as error:
        raise _unconverted(config, str(error)) from None
    except ValueError as error:
        raise errors.bad_request(str(error)) from None
    obj["apiVersion"], obj["kind"] = resource.api_version, resource.kind
    obj.setdefault("metadata", {})
    return scope.services.codec.default(obj, resource)


def _unconverted(config: Configuration, why: str) -> errors.StatusError:
    what = f"failed to convert new object ({manager_name(config.value)}) to proper version"
    kind = gvk_text(config.value)
    return errors.StatusError(500, "", f"{what}: unable to convert unstructured object to {kind}: {why}")


def _defaulted(scope: Scope, live: Object | None, merged: Object) -> Object:
    """Nulls stay as they were merged: of a map nothing is read but the metadata."""
    resource = scope.resource
    metadata = dict(merged.get("metadata") or {})
    metadata.pop("creationTimestamp", None)  # set by the server alone
    if live is not None:
        metadata["creationTimestamp"] = live["metadata"]["creationTimestamp"]
    head = {"apiVersion": merged["apiVersion"], "kind": merged["kind"], "metadata": metadata}
    structural = structural_of(resource)
    found = patches.decode(head, resource.gvk, resource.schema, "Ignore", (), structural)
    return scope.services.codec.default({**merged, **found.object}, resource)
