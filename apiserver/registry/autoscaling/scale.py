"""Scale: the subresource, made of a few fields of its object, and the cells of tables.

Source: k8s.io/kubernetes/pkg/registry/apps/deployment/storage/storage.go (ScaleREST), 1.36.
"""

import copy
from collections.abc import Callable, Mapping
from functools import partial

from kubeskew.apimachinery import errors, field
from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.errors import GroupResource
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import GroupVersionKind
from kubeskew.apimachinery.schema import Field, Kind, Schema
from kubeskew.apimachinery.selectors.labels import LabelSelector
from kubeskew.apiserver.admission import UPDATE
from kubeskew.apiserver.apply.managedfields import FieldManager, field_manager
from kubeskew.apiserver.apply.managedfields.fieldpath import Path
from kubeskew.apiserver.apply.managedfields.scale_handler import (
    ScalePaths,
    replicas_path,
    to_parent,
    to_scale,
)
from kubeskew.apiserver.http import parameters
from kubeskew.apiserver.http.media_types import APPLY_PATCH, STRATEGIC_PATCH
from kubeskew.apiserver.http.parameters import WriteOptions
from kubeskew.apiserver.http.request import Request, Response
from kubeskew.apiserver.registry.generic import update as generic_update
from kubeskew.apiserver.registry.generic.field_managers import manager_name
from kubeskew.apiserver.registry.generic.registry import WriteResult
from kubeskew.apiserver.registry.generic.strategy import at_path
from kubeskew.apiserver.registry.requests import patches, responses
from kubeskew.apiserver.registry.requests.patches import (
    Configuration,
    check_repeated,
    patch_type,
    read_configuration,
)
from kubeskew.apiserver.registry.requests.scope import (
    Scope,
    attributes_of,
    check_name,
    check_namespace,
    read_body,
    read_other,
    write_of,
)
from kubeskew.apiserver.registry.tables.cells import Cells, Subject

GVK = GroupVersionKind("autoscaling", "v1", "Scale")
_INT32 = Schema(Kind.INTEGER, format="int32")
_NAME = "io.k8s.api.autoscaling.v1.Scale"
_TEXT = Schema(Kind.STRING)
_BAD_REQUEST = 400
_OTHER_VERSION = "the API version in the data"
_UNREGISTERED = (
    "no kind is registered for the type v1.Scale in scheme "
    '"k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go:781"'
)
# The converter of custom resources does not know Scale: applying a Scale fails if it changes anything.
_NO_SCALE = "to proper version: request to convert CR to an invalid group/version: autoscaling/v1"
_UNSET = -(2**31)  # replicas that were never given
# The group that a 404 names for a missing Scale until 1.32; other kinds, and later all, name themselves.
_MISSED_IN = {"deployments.apps": "apps", "replicasets.apps": "apps", "replicationcontrollers": "autoscaling"}
_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_schema(metadata: Schema) -> Schema:
    spec = Schema(Kind.OBJECT, name=f"{_NAME}Spec", fields={"replicas": Field(_INT32)})
    shown = {"replicas": Field(_INT32, omit_empty=False), "selector": Field(_TEXT)}
    status = Schema(Kind.OBJECT, name=f"{_NAME}Status", fields=shown)
    fields = {"apiVersion": Field(_TEXT), "kind": Field(_TEXT), "metadata": Field(metadata, omit_empty=False)}
    fields |= {"spec": Field(spec, omit_empty=False), "status": Field(status, omit_empty=False)}
    return Schema(Kind.OBJECT, name=_NAME, fields=fields)


async def get(request: Request, scope: Scope) -> Response:
    form = responses.form_of(request)
    await scope.services.store.refresh()
    try:
        entry = scope.registry.entry(request.info.namespace, request.info.name)
    except errors.StatusError as error:
        features = scope.services.features.workloads
        group = _MISSED_IN.get(scope.resource.storage_resource) if features.missed_scales else None
        if group is None:
            raise
        missed = GroupResource(group, f"{scope.resource.plural}/scale")
        raise errors.not_found(missed, request.info.name) from error
    await scope.registry.fetch_conversion(entry)
    obj = scope.registry.object(entry)
    if scope.resource.custom and at_path(obj, _paths(scope).spec_replicas) is None:
        path = _paths(scope).spec_replicas
        raise errors.internal(f'the spec replicas field ".{path}" does not exist')
    return responses.render(request, scope, scale_of(scope, obj), form)


def scale_of(scope: Scope, obj: Object) -> Object:
    """`obj` is in the hub version."""
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
        raise errors.unknown_path()
    return paths


async def update(request: Request, scope: Scope) -> Response:
    """PUT sets the replicas, under the resourceVersion that the Scale names."""
    form = responses.form_of(request)
    options = parameters.write_options(request, "UpdateOptions")
    schema = scale_schema(scope.resource.schema.fields["metadata"].schema)
    sent = await _read(request, scope, schema, options.field_validation)
    sent.setdefault("metadata", {})
    check_namespace(sent, scope, request.info.namespace)
    check_name(sent, request.info.name)
    change = partial(_managed, request, schema, options.field_manager, lambda _: copy.deepcopy(sent))
    uid = sent["metadata"].get("uid") or ""
    result = await _write(request, scope, change, dry_run=options.dry_run, uid=uid)
    return responses.render(request, scope, scale_of(scope, result.obj), form)


async def _read(request: Request, scope: Scope, schema: Schema, validation: str) -> Object:
    """A Scale that cannot be read is explained badly where the resource is a custom one."""
    target = scope.resource.subresources["scale"]
    try:
        return await read_other(request, scope, target, schema, validation)
    except errors.StatusError as error:
        if scope.resource.custom and error.code == _BAD_REQUEST and _OTHER_VERSION not in error.message:
            raise errors.bad_request(_UNREGISTERED) from None
        raise


async def patch(request: Request, scope: Scope) -> Response:
    content_type = patch_type(request, scope)
    form = responses.form_of(request)
    body = await read_body(request)
    options = parameters.patch_options(request, apply=content_type == APPLY_PATCH)
    schema = scale_schema(scope.resource.schema.fields["metadata"].schema)
    if content_type == APPLY_PATCH:
        config = read_configuration(body)
        change = partial(_applied, request, scope, schema, config, options)
    else:
        whole = scope.services.features.requests.whole_patches
        patcher = partial(_patched, request, schema, content_type, body, options.field_validation, whole)
        change = partial(_managed, request, schema, options.field_manager, patcher)
    result = await _write(request, scope, change, dry_run=options.dry_run)
    return responses.render(request, scope, scale_of(scope, result.obj), form)


def _patched(
    request: Request,
    schema: Schema,
    content_type: str,
    body: bytes,
    validation: str,
    whole: bool,
    live: Object,
) -> Object:
    """Applies go another way; `whole` is as in `patches.patched`."""
    if content_type == STRATEGIC_PATCH:
        scale, warnings, _ = patches.strategically_patched(live, body, GVK, schema, validation)
    else:
        value, strict = patches.patched(live, body, content_type, validation, whole=whole)
        scale, warnings, _ = patches.decode(value, GVK, schema, validation, strict)
    request.warnings.extend(warnings)
    check_name({"metadata": {}, **scale}, request.info.name)
    return scale


def _field_manager(schema: Schema) -> FieldManager:
    return FieldManager(lambda version: schema if version == GVK.api_version else None)


def _managed(
    request: Request, schema: Schema, manager: str, change: Callable[[Object], Object], live: Object, now: str
) -> Object:
    name = manager_name(manager, request.headers.get("user-agent", ""))
    return _field_manager(schema).update(live, change(live), name, "scale", now)


def _applied(
    request: Request,
    scope: Scope,
    schema: Schema,
    config: Configuration,
    options: WriteOptions,
    live: Object,
    now: str,
) -> Object:
    _check_owned(scope, live, config.value)
    merged = _field_manager(schema).apply(
        live, config.value, options.field_manager, bool(options.force), "scale", now, kind=GVK.kind
    )
    if scope.resource.custom and field_manager.unmanaged_object(merged) != field_manager.unmanaged_object(
        live
    ):
        raise errors.StatusError(
            500, "", f"failed to convert new object ({field_manager.manager_name(merged)}) {_NO_SCALE}"
        )
    check_repeated(request, config, options.field_validation)
    found = patches.decode(merged, GVK, schema, "Ignore").object
    check_namespace(found, scope, request.info.namespace)
    check_name(found, request.info.name)
    return found


def _check_owned(scope: Scope, live: Object, config: Object) -> None:
    """Replicas of a custom resource that nobody owns are refused: no manager can be made up for them."""
    if scope.resource.custom and not live["metadata"].get("managedFields"):
        field_manager.check_kind(live, config)
        why = f"failed to convert live object (/; {field_manager.gvk(live)}) {_NO_SCALE}"
        raise errors.StatusError(500, "", f"failed to create manager for existing fields: {why}")


async def _write(
    request: Request, scope: Scope, change: Callable[[Object, str], Object], *, dry_run: bool, uid: str = ""
) -> WriteResult:
    """Writes what `change` makes of the live Scale into its object, with time and field owners.

    `uid` is a precondition if it is not empty.
    """
    services, registry, paths = scope.services, scope.registry, _paths(scope)
    write = write_of(request, scope, dry_run=dry_run)

    async def transform(current: Object | None) -> Object:
        if current is None:
            raise errors.not_found(scope.resource.group_resource, request.info.name)
        shown, owners = _live(scope, current), _owned_at(scope)
        scale = change(copy.deepcopy(shown), timestamp(services.environment.clock.now()))
        attributes = attributes_of(request, scope, UPDATE, scale, shown, dry_run=dry_run)
        await services.admission.admit(attributes)
        await services.admission.validate(attributes)
        replicas = (scale.get("spec") or {}).get("replicas") or 0
        _check(scope, request.info.name, replicas)
        _check_uid(scope, request.info.name, scale, current)
        new = {**current, "metadata": dict(current["metadata"])}
        _set(new, paths.spec_replicas, replicas)
        revision = scale["metadata"].get("resourceVersion")
        if revision:
            new["metadata"]["resourceVersion"] = revision
        before, scaled = current["metadata"].get("managedFields"), scale["metadata"].get("managedFields")
        managed = to_parent(before, scaled, scope.resource.api_version, owners)
        new["metadata"].pop("managedFields", None)
        return field_manager.managed_object(new, managed) if managed else new

    # The write is one of the object: its own strategy, its generation. Admission sees the Scale.
    write.subresource, write.admitted = "", True
    return await generic_update.update(registry, request.info.name, transform, write, uid=uid)


def _live(scope: Scope, current: Object) -> Object:
    """The live Scale has its managers, and a value nobody can want where there is none."""
    shown = scale_of(scope, current)
    if scope.resource.custom and at_path(current, _paths(scope).spec_replicas) is None:
        shown["spec"]["replicas"] = _UNSET
    managed = to_scale(current["metadata"].get("managedFields"), _owned_at(scope))
    if managed:
        shown["metadata"]["managedFields"] = managed
    return shown


def _owned_at(scope: Scope) -> Mapping[str, Path | None]:
    path = replicas_path(_paths(scope).spec_replicas)
    resource, table = scope.resource, scope.services.table
    if resource.custom:
        return {resource.api_version: path}
    known = [version for group, version in table.builtin.registered() if group == resource.group]
    there = [version for version in known if table.by_kind(resource.group, version, resource.kind)]
    return {GroupVersionKind(resource.group, version, "").api_version: path for version in there}


def _check(scope: Scope, name: str, replicas: int) -> None:
    """Invalid numbers are refused here; a custom resource's own rules check them themselves."""
    if scope.resource.custom:
        if replicas == _UNSET:
            path = _paths(scope).spec_replicas
            raise errors.bad_request(f'the spec replicas field ".{path}" cannot be empty')
    elif replicas < 0:
        what = field.invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise errors.invalid(errors.GroupKind(GVK.group, GVK.kind), name, [what])


def _check_uid(scope: Scope, name: str, scale: Object, current: Object) -> None:
    """409 is raised if a patch set another uid than the object's; not for custom resources."""
    uid, found = scale["metadata"].get("uid"), current["metadata"]["uid"]
    if uid and uid != found and not scope.resource.custom:
        target = GroupResource(scope.resource.group, f"{scope.resource.plural}/scale")
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {found}"
        raise errors.conflict(target, name, why)


def _set(obj: Object, path: str, value: int) -> None:
    *parents, last = path.split(".")
    for name in parents:
        obj[name] = dict(obj.get(name) or {})
        obj = obj[name]
    obj[last] = value


def scale_cells(subject: Subject) -> Cells:
    return {
        "Desired": subject.number("spec", "replicas"),
        "Available": subject.number("status", "replicas"),
    }
