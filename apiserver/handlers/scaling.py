"""The scale subresource: an `autoscaling/v1` Scale made of a few fields of its object.

Source: k8s.io/kubernetes/pkg/registry/apps/deployment/storage/storage.go (ScaleREST), 1.36.
"""

import copy
from collections.abc import Callable

from apimachinery import decoding, errors, field
from apimachinery.errors import Object
from apimachinery.labels import LabelSelector
from apimachinery.patching.json_patch import apply_json_patch
from apimachinery.patching.merge_patch import apply_merge_patch
from apimachinery.patching.strategic import apply_strategic
from apimachinery.resources import GroupVersionKind
from apimachinery.schema import Field, Kind, Schema
from apiserver import bodies, parameters, rendering
from apiserver.admission import UPDATE
from apiserver.admission.requests import attributes_of
from apiserver.handlers.creating import managed, write_of
from apiserver.handlers.patching import decode_patched, patch_type
from apiserver.media_types import APPLY_PATCH, JSON_PATCH, MERGE_PATCH
from apiserver.registry import updating
from apiserver.registry.strategy import ScalePaths, at_path
from apiserver.registry.writes import Written
from apiserver.request import Request, Response
from apiserver.services import Scope

GVK = GroupVersionKind("autoscaling", "v1", "Scale")
_INT32 = Schema(Kind.INTEGER, format="int32")
_NAME = "io.k8s.api.autoscaling.v1.Scale"
_TEXT = Schema(Kind.STRING)
_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_schema(metadata: Schema) -> Schema:
    """The tree of a Scale; `metadata` is ObjectMeta's."""
    spec = Schema(Kind.OBJECT, name=f"{_NAME}Spec", fields={"replicas": Field(_INT32)})
    shown = {"replicas": Field(_INT32, omit_empty=False), "selector": Field(_TEXT)}
    status = Schema(Kind.OBJECT, name=f"{_NAME}Status", fields=shown)
    fields = {"apiVersion": Field(_TEXT), "kind": Field(_TEXT), "metadata": Field(metadata, omit_empty=False)}
    fields |= {"spec": Field(spec, omit_empty=False), "status": Field(status, omit_empty=False)}
    return Schema(Kind.OBJECT, name=_NAME, fields=fields)


async def get(request: Request, scope: Scope) -> Response:
    form = rendering.form_of(request)
    await scope.services.store.refresh()
    entry = scope.registry.entry(request.info.namespace, request.info.name)
    return rendering.render(request, scope, scale_of(scope, scope.registry.object(entry)), form)


def scale_of(scope: Scope, obj: Object) -> Object:
    """The Scale of an object in the hub version."""
    paths = _paths(scope)
    metadata = {name: obj["metadata"][name] for name in _METADATA if name in obj["metadata"]}
    spec, status = {}, {"replicas": at_path(obj, paths.status_replicas) or 0}
    if at_path(obj, paths.spec_replicas):
        spec["replicas"] = at_path(obj, paths.spec_replicas)
    selector = at_path(obj, paths.selector) if paths.selector else None
    if isinstance(selector, dict):
        known = "matchLabels" in selector or "matchExpressions" in selector
        selector = str(LabelSelector.from_object(selector) if known else LabelSelector.from_labels(selector))
    if selector:
        status["selector"] = selector
    return {
        "kind": GVK.kind,
        "apiVersion": GVK.api_version,
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }


def _paths(scope: Scope) -> ScalePaths:
    paths = scope.registry.strategy.scale
    if paths is None:
        raise errors.not_found(scope.resource.group_resource, "")
    return paths


async def update(request: Request, scope: Scope) -> Response:
    """PUT of a Scale: its replicas, under the resourceVersion it names."""
    form = rendering.form_of(request)
    options = parameters.write_options(request, "UpdateOptions")
    schema = scale_schema(scope.resource.schema.fields["metadata"].schema)
    target = scope.resource.subresources["scale"]
    sent = await bodies.read_other(request, scope, target, schema, options.field_validation)
    sent.setdefault("metadata", {})
    bodies.check_name(sent, request.info.name)
    result = await _write(request, scope, lambda _: sent, options.dry_run, options.field_manager)
    return rendering.render(request, scope, scale_of(scope, result.obj), form)


async def patch(request: Request, scope: Scope) -> Response:
    """PATCH of the Scale as it is now."""
    form = rendering.form_of(request)
    content_type = patch_type(request, scope)
    options = parameters.write_options(request, "PatchOptions")
    body = await bodies.read(request)
    schema = scale_schema(scope.resource.schema.fields["metadata"].schema)

    def patched(live: Object) -> Object:
        if content_type == JSON_PATCH:
            value = apply_json_patch(live, body)
        elif content_type == MERGE_PATCH:
            value = apply_merge_patch(live, body)
        elif content_type == APPLY_PATCH:
            value = {**live, "spec": decoding.parse(body, APPLY_PATCH).value.get("spec") or {}}
        else:
            value = apply_strategic(live, body, schema)
        return decode_patched(value, GVK, schema, options.field_validation).object

    result = await _write(request, scope, patched, options.dry_run, options.field_manager)
    return rendering.render(request, scope, scale_of(scope, result.obj), form)


async def _write(
    request: Request, scope: Scope, change: Callable[[Object], Object], dry_run: bool, manager: str
) -> Written:
    """Write what `change` makes of the live Scale into its object."""
    codec, registry, paths = scope.services.codec, scope.registry, _paths(scope)
    write = write_of(request, scope, dry_run=dry_run)

    async def transform(current: Object | None) -> Object:
        if current is None:
            raise errors.not_found(scope.resource.group_resource, request.info.name)
        shown = scale_of(scope, current)
        scale = change(copy.deepcopy(shown))
        attributes = attributes_of(request, scope, UPDATE, scale, shown, dry_run=dry_run)
        await scope.services.admission.admit(attributes)
        await scope.services.admission.validate(attributes)
        live = codec.convert(current, scope.resource)
        new = codec.convert({**current, "metadata": {**current["metadata"]}}, scope.resource)
        replicas = (scale.get("spec") or {}).get("replicas") or 0
        if replicas < 0:
            raise _negative(scope, request.info.name, replicas)
        _set(new, paths.spec_replicas, replicas)
        revision = scale["metadata"].get("resourceVersion")
        if revision:
            new["metadata"]["resourceVersion"] = revision
        return codec.convert(managed(request, scope, live, new, write, manager), registry.resource)

    # The write is one of the object: its own strategy, its generation. Admission sees the Scale.
    write.subresource, write.admitted = "", True
    return await updating.update(registry, request.info.name, transform, write)


def _negative(scope: Scope, name: str, replicas: int) -> errors.StatusError:
    if scope.resource.custom:
        what = field.invalid(f".{_paths(scope).spec_replicas}", replicas, "should be a non-negative integer")
        return errors.invalid(scope.resource.group_kind, name, [what])
    what = field.invalid("spec.replicas", replicas, "must be greater than or equal to 0")
    return errors.invalid(errors.GroupKind(GVK.group, GVK.kind), name, [what])


def _set(obj: Object, path: str, value: int) -> None:
    """Set the value at a dotted path; the objects on the way are copied, not changed."""
    *parents, last = path.split(".")
    for name in parents:
        obj[name] = dict(obj.get(name) or {})
        obj = obj[name]
    obj[last] = value
