"""POST of a new object.

Source: k8s.io/apiserver/pkg/endpoints/handlers/create.go, 1.36.
"""

from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.caching.offload import beside
from kubeskew.apiserver.http import authors, bodies, parameters, rendering
from kubeskew.apiserver.http.request import Request, Response
from kubeskew.apiserver.registry.generic import create as generic_create
from kubeskew.apiserver.registry.generic.field_managers import manager_name
from kubeskew.apiserver.registry.generic.owner_references import deduplicate
from kubeskew.apiserver.registry.generic.writes import Write
from kubeskew.apiserver.services import Scope


async def create(request: Request, scope: Scope) -> Response:
    """Decode, wipe what a client may not say, note the manager, and hand over to the registry."""
    form = rendering.form_of(request)
    bodies.type_of(request, None if scope.resource.custom else scope.resource.schema)  # before the options
    options = parameters.write_options(request, "CreateOptions")
    obj = await bodies.read_object(request, scope, options.field_validation)
    bodies.check_namespace(obj, scope, request.info.namespace)
    bodies.wipe_system_metadata(obj)
    write = write_of(request, scope, dry_run=options.dry_run)

    def made() -> Object:
        deduplicate(obj, write.warnings)
        new = managed(request, scope, None, obj, write, options.field_manager)
        return scope.services.codec.convert(new, scope.registry.resource)

    result = await generic_create.create(scope.registry, await beside(write.size, made), write)
    return await beside(write.size, lambda: rendering.written(request, scope, result, form))


def write_of(request: Request, scope: Scope, *, dry_run: bool) -> Write:
    """The write that a request makes."""
    author = authors.author_of(request, str(scope.services.world.version))
    return Write(
        request.user,
        author,
        request.info.namespace,
        scope.subresource,
        dry_run,
        scope.resource.group,
        request.warnings,
        scope.resource,
        parameters.given_options(request),
        verb=request.info.verb,
        size=request.size,
    )


def managed(
    request: Request, scope: Scope, live: Object | None, new: Object, write: Write, manager: str
) -> Object:
    """`new` (in the request's version) with its managedFields as after this update."""
    return scope.registry.field_manager.update(
        live,
        new,
        manager_name(manager, request.headers.get("user-agent", "")),
        scope.subresource,
        timestamp(scope.services.world.clock.now()),
        reset=scope.registry.reset_fields(write),
    )
