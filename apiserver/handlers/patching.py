"""PATCH: JSON, merge and strategic merge patches, and server-side apply.

Source: k8s.io/apiserver/pkg/endpoints/handlers/patch.go, 1.36.
"""

from collections.abc import Callable
from typing import Any

from apimachinery import decoding, errors, field, shapes
from apimachinery.clock import timestamp
from apimachinery.decoding import Decoded, Parsed
from apimachinery.errors import Object
from apimachinery.normalising import WrongShape
from apimachinery.patching.json_patch import apply_json_patch
from apimachinery.patching.merge_patch import apply_merge_patch
from apimachinery.resources import GroupVersionKind
from apimachinery.schema import Schema
from apimachinery.structural import Structural
from apiserver import bodies, media_types, parameters, rendering
from apiserver.beside import beside
from apiserver.encoding import dumps
from apiserver.handlers import strategic_patching
from apiserver.handlers.creating import managed, write_of
from apiserver.media_types import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from apiserver.parameters import WriteOptions
from apiserver.registry import updating
from apiserver.registry.owner_references import deduplicate
from apiserver.registry.writes import Write
from apiserver.request import Request, Response
from apiserver.services import Scope

# Makes the new object, in the request's version, of the live one.
Patcher = Callable[[Object], Object]


async def patch(request: Request, scope: Scope) -> Response:
    """Change the object as it is when the change is written."""
    form = rendering.form_of(request)
    content_type = patch_type(request, scope)
    options = parameters.write_options(request, "PatchOptions")
    check_options(options, content_type)
    body = await bodies.read(request)
    write = write_of(request, scope, dry_run=options.dry_run)
    codec, registry = scope.services.codec, scope.registry
    apply = content_type == APPLY_PATCH
    config: Object = {}
    if apply:
        config = await bodies.elsewhere(
            body, lambda: configuration(request, scope, body, options, scope.resource.gvk)
        )
    patcher = None if apply else _patcher(request, scope, body, content_type, options.field_validation)

    async def transform(current: Object | None) -> Object:
        if current is None and not apply:  # even of a kind that a PUT may create
            raise errors.not_found(registry.resource.group_resource, request.info.name)
        entry = scope.services.store.get(registry.key(request.info.namespace, request.info.name))
        stored = len(entry.value) if entry is not None else 0
        return await beside(max(write.size, stored), lambda: made(current))

    def made(current: Object | None) -> Object:
        live = codec.convert(current, scope.resource) if current is not None else None
        if patcher is None:
            new = _applied(request, scope, live, config, write, options)
        else:
            new = _patched(request, scope, live or {}, patcher, write, options)
        return codec.convert(new, registry.resource)

    name = request.info.name
    result = await updating.update(registry, name, transform, write, uid=_uid(config), force_create=apply)
    size = len(result.value or b"")
    return await beside(size, lambda: rendering.written(request, scope, result, form))


def patch_type(request: Request, scope: Scope) -> str:
    """The patch's media type; raises 415. Custom resources have no strategic merge patch."""
    known = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH]
    if not scope.resource.custom:
        known.insert(2, STRATEGIC_PATCH)
    content_type = request.headers.get("content-type", "").split(";", 1)[0].strip().lower()
    if content_type not in known:
        raise media_types.unsupported(known)
    return content_type


def check_options(options: WriteOptions, content_type: str) -> None:
    """Raise 422 for options that do not go with the patch."""
    problems = []
    if content_type == APPLY_PATCH:
        if not options.field_manager:
            problems.append(field.required("fieldManager", "is required for apply patch"))
    elif options.force is not None:
        problems.append(field.forbidden("force", "may not be specified for non-apply patch"))
    parameters.refuse("PatchOptions", problems)


def _uid(config: Object) -> str:
    return config.get("metadata", {}).get("uid") or ""


# --- the three patches -------------------------------------------------------------------------------------


def _patcher(request: Request, scope: Scope, body: bytes, content_type: str, validation: str) -> Patcher:
    """What makes the patched object as if it had been sent: decoded, defaulted."""

    def strategic(live: Object) -> Object:
        resource = scope.resource
        found = strategic_patching.patched(live, body, resource.gvk, resource.schema, validation)
        request.warnings.extend(found.warnings)
        found.object.setdefault("metadata", {})
        return scope.services.codec.default(found.object, resource)

    def plain(live: Object) -> Object:
        live = _sorted(live) if scope.resource.custom else live
        apply = apply_json_patch if content_type == JSON_PATCH else apply_merge_patch
        return decoded(request, scope, apply(live, body), validation)

    return strategic if content_type == STRATEGIC_PATCH else plain


def _patched(
    request: Request, scope: Scope, live: Object, patcher: Patcher, write: Write, options: WriteOptions
) -> Object:
    """The patched object with its managers."""
    new = patcher(live)
    bodies.check_name(new, request.info.name)
    bodies.check_namespace(new, scope, request.info.namespace)
    deduplicate(new, request.warnings)
    return managed(request, scope, live, new, write, options.field_manager)


def _sorted(value: Any) -> Any:
    """A custom resource is a map upstream: it is patched, and told of, with its keys in order."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(one) for one in value] if isinstance(value, list) else value


def decoded(request: Request, scope: Scope, patched: Any, validation: str) -> Object:
    """A patched value as an object of the scope's kind; raises 400 and 422."""
    resource = scope.resource
    if not isinstance(patched, dict):
        raise unreadable_patch(patched, decoding.no_object(patched))
    _check_kind(scope, patched)
    found = decode_patched(patched, resource.gvk, resource.schema, validation, resource.structural)
    request.warnings.extend(found.warnings)
    found.object.setdefault("metadata", {})
    return scope.services.codec.default(found.object, resource)


def decode_patched(
    patched: Any,
    gvk: GroupVersionKind,
    schema: Schema,
    validation: str,
    structural: Structural | None = None,
) -> Decoded:
    """Decode what a patch has made; what does not fit is 422 here, and the value is the whole object."""
    try:
        decoding.check_depth(patched, decoding.MAX_OBJECT_DEPTH)  # patches can nest deeper than bodies
    except ValueError as error:
        raise errors.bad_request(str(error)) from None
    if not isinstance(patched, dict):
        raise unreadable_patch(patched, decoding.no_object(patched))
    try:
        return decoding.decode_value(Parsed(patched), gvk, schema, validation, structural=structural)
    except errors.StatusError as error:
        why = error.message.partition(f"cannot be handled as a {gvk.kind}: ")[2] or error.message
        raise unreadable_patch(patched, why) from None


def unreadable_patch(patched: Any, why: str) -> errors.StatusError:
    """422: what the patch made cannot be read; its value is the whole of it."""
    problem = field.invalid("patch", dumps(patched).decode(), why)
    return errors.invalid(errors.GroupKind("", ""), "", [problem])


def _check_kind(scope: Scope, patched: Any) -> None:
    """Raise if the patch made the object one of another kind."""
    resource = scope.resource
    api_version, kind = patched.get("apiVersion"), patched.get("kind")
    if (api_version, kind) == (resource.api_version, resource.kind):
        return
    group, _, version = str(api_version or "").rpartition("/")
    if not resource.custom:
        gvk = GroupVersionKind(group, version, str(kind or ""))
        scheme = "pkg/api/legacyscheme/scheme.go:30"
        why = f'no kind "{gvk.kind}" is registered for version "{gvk.api_version}" in scheme "{scheme}"'
        raise errors.bad_request(why)
    problems = []
    if api_version != resource.api_version:
        problems.append(field.invalid("apiVersion", api_version, f"must be {resource.api_version}"))
    if kind != resource.kind:
        problems.append(field.invalid("kind", kind, f"must be {resource.kind}"))
    name = patched.get("metadata", {}).get("name", "")
    raise errors.invalid(errors.GroupKind(group, str(kind)), name, problems)


# --- apply -------------------------------------------------------------------------------------------------


def configuration(
    request: Request, scope: Scope, body: bytes, options: WriteOptions, gvk: GroupVersionKind
) -> Object:
    """The applied configuration: what the client says and nothing more, no defaults."""
    try:
        parsed = decoding.parse(body, APPLY_PATCH)
    except ValueError as error:
        raise errors.bad_request(f"error decoding YAML: error converting YAML to JSON: {error}") from None
    if parsed.value is not None and not isinstance(parsed.value, dict):
        found = shapes.found(parsed.value)
        why = f"json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        raise errors.bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {why}")
    config: Object = parsed.value or {}
    if parsed.duplicates and options.field_validation == "Strict":
        raise errors.bad_request(f"error strict decoding YAML: {', '.join(parsed.duplicates)}")
    if options.field_validation != "Ignore":
        request.warnings.extend(parsed.duplicates)
    _check_applied_kind(gvk, config)
    metadata = config.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        raise errors.bad_request("error decoding YAML: metadata is not an object")
    metadata.setdefault("name", request.info.name)
    bodies.check_name(config, request.info.name)
    bodies.check_namespace({"metadata": dict(metadata)}, scope, request.info.namespace)
    return config


def _check_applied_kind(expected: GroupVersionKind, config: Object) -> None:
    api_version, kind = config.get("apiVersion") or "", config.get("kind") or ""
    if api_version != expected.api_version or kind != expected.kind:
        group, _, version = str(api_version).rpartition("/")
        raise errors.bad_request(
            f"invalid object type: {group}/{version}, Kind={kind}"
            if (group, kind) != (expected.group, expected.kind)
            else f"the API version in the data ({api_version}) does not match the expected API version "
            f"({expected.api_version})"
        )


def _applied(
    request: Request, scope: Scope, live: Object | None, config: Object, write: Write, options: WriteOptions
) -> Object:
    try:
        new = scope.registry.field_manager.apply(
            live,
            config,
            options.field_manager,
            bool(options.force),
            scope.subresource,
            timestamp(scope.services.world.clock.now()),
            kind=scope.resource.kind,
            reset=scope.registry.reset_fields(write),
        )
    except WrongShape:  # met when the result is converted for managers of other versions
        raise unreadable_patch(config, shapes.explain(config, scope.resource.schema)) from None
    obj = decoded(request, scope, new, "Ignore")
    bodies.check_namespace(obj, scope, request.info.namespace)
    return obj
