"""PUT of an object, or of one of its subresources that have the object as their body.

Source: k8s.io/apiserver/pkg/endpoints/handlers/update.go, 1.36.
"""

from kubeskew.apimachinery.golang.raw_extensions import raw_fields
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.caching.offload import offload
from kubeskew.apiserver.http import parameters
from kubeskew.apiserver.http.request import Request, Response
from kubeskew.apiserver.registry.generic import update as generic_update
from kubeskew.apiserver.registry.generic.checks import deduplicate
from kubeskew.apiserver.registry.requests import responses
from kubeskew.apiserver.registry.requests.scope import (
    Scope,
    check_name,
    check_namespace,
    managed,
    read_object,
    write_of,
)
from kubeskew.apiserver.storage.encoding import copied

# Upstream's components read and write protobuf, which carries the bytes of raw fields; here they speak JSON.
_SPEAK_PROTOBUF = frozenset({"kube-controller-manager", "kube-scheduler", "kubelet"})


async def update(request: Request, scope: Scope) -> Response:
    """Replaces what the client may replace. A resourceVersion or uid in the body is a precondition."""
    form = responses.form_of(request)
    options = parameters.write_options(request, "UpdateOptions")
    obj = await read_object(request, scope, options.field_validation)
    check_namespace(obj, scope, request.info.namespace)
    check_name(obj, request.info.name)
    write = write_of(request, scope, dry_run=options.dry_run)
    await offload(write.size, lambda: deduplicate(obj, write.warnings))
    codec, registry = scope.services.codec, scope.registry
    raw = None if scope.resource.custom else raw_fields(scope.resource.schema)
    if write.author.component not in _SPEAK_PROTOBUF:
        raw = None

    def made(current: Object | None) -> Object:
        new = copied(obj)
        live = codec.convert(current, scope.resource) if current is not None else None
        if raw is not None and live is not None:
            raw.carry(new, live)
        return codec.convert(
            managed(request, scope, live, new, write, options.field_manager), registry.resource
        )

    async def transform(current: Object | None) -> Object:
        return await offload(write.size, lambda: made(current))

    uid = obj["metadata"].get("uid") or ""
    result = await generic_update.update(registry, request.info.name, transform, write, uid=uid)
    return await offload(write.size, lambda: responses.written(request, scope, result, form))
