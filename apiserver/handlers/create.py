"""POST of a new object.

Source: k8s.io/apiserver/pkg/endpoints/handlers/create.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.caching.offload import offload
from kubeskew.apiserver.http import parameters
from kubeskew.apiserver.http.request import Request, Response
from kubeskew.apiserver.registry.generic import create as generic_create
from kubeskew.apiserver.registry.generic.checks import deduplicate
from kubeskew.apiserver.registry.requests import responses
from kubeskew.apiserver.registry.requests.scope import (
    Scope,
    body_type,
    check_namespace,
    managed,
    read_object,
    wipe_system_metadata,
    write_of,
)


async def create(request: Request, scope: Scope) -> Response:
    """Wipes what a client may not set, records the field manager, and hands the object to the registry."""
    form = responses.form_of(request)
    body_type(request, None if scope.resource.custom else scope.resource.schema)  # before the options
    options = parameters.write_options(request, "CreateOptions")
    obj = await read_object(request, scope, options.field_validation)
    check_namespace(obj, scope, request.info.namespace)
    wipe_system_metadata(obj)
    write = write_of(request, scope, dry_run=options.dry_run)

    def made() -> Object:
        deduplicate(obj, write.warnings)
        new = managed(request, scope, None, obj, write, options.field_manager)
        return scope.services.codec.convert(new, scope.registry.resource)

    result = await generic_create.create(scope.registry, await offload(write.size, made), write)
    return await offload(write.size, lambda: responses.written(request, scope, result, form))
