"""Decides what is written by a request, and who owns the fields of it."""

from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.http import authors, parameters
from kubeskew.apiserver.http.request import Request
from kubeskew.apiserver.registry.generic.field_managers import manager_name
from kubeskew.apiserver.registry.generic.writes import WriteRequest
from kubeskew.apiserver.registry.requests.scope import Scope


def write_of(request: Request, scope: Scope, *, dry_run: bool) -> WriteRequest:
    """Returns the write that a request makes."""
    author = authors.author_of(request, str(scope.services.environment.version))
    return WriteRequest(
        request.user,
        author,
        request.info.namespace,
        scope.subresource,
        dry_run,
        request.warnings,
        scope.resource,
        parameters.given_options(request),
        verb=request.info.verb,
        size=request.size,
    )


def managed(
    request: Request, scope: Scope, live: Object | None, new: Object, write: WriteRequest, manager: str
) -> Object:
    """Returns `new` (in the request's version) with its managedFields after this update."""
    return scope.registry.field_manager.update(
        live,
        new,
        manager_name(manager, request.headers.get("user-agent", "")),
        scope.subresource,
        timestamp(scope.services.environment.clock.now()),
        reset=scope.registry.reset_fields(write),
    )
