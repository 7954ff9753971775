"""Dispatch of requests to handlers, by request info."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.errors import GroupResource, StatusError
from kubeskew.apimachinery.resources import STANDARD_VERBS, Resource, ResourceTable
from kubeskew.apiserver.aggregation.registered import AggregationServices
from kubeskew.apiserver.apiextensions.table import takes_nothing_new
from kubeskew.apiserver.deprecations import deprecation_warning, removed_release
from kubeskew.apiserver.handlers import (
    create,
    delete,
    get,
    list_objects,
    patch,
    update,
    watch,
)
from kubeskew.apiserver.http import media_types
from kubeskew.apiserver.http.request import Request, RequestInfo, Response, text
from kubeskew.apiserver.registry import reviews as reviewing
from kubeskew.apiserver.registry.autoscaling import scale
from kubeskew.apiserver.registry.core import componentstatus, proxy, serviceaccount
from kubeskew.apiserver.registry.core.pod import binding, connect, eviction, log
from kubeskew.apiserver.registry.requests.scope import RequestServices, Scope
from kubeskew.apiserver.registry.reviews import REVIEWS
from kubeskew.apiserver.storage.interfaces import StorageError

ResourceHandler = Callable[[Request, Scope], Awaitable[Response]]

_VERBS: dict[str, ResourceHandler] = {
    "get": get.get,
    "list": list_objects.list_objects,
    "watch": watch.watch,
    "create": create.create,
    "update": update.update,
    "patch": patch.patch,
    "delete": delete.delete,
    "deletecollection": delete.delete_collection,
}
_CONNECTED = ("exec", "attach", "portforward")
# Subresources whose body is not the object itself.
_SUBRESOURCES: dict[tuple[str, str], ResourceHandler] = {
    ("scale", "get"): scale.get,
    ("scale", "update"): scale.update,
    ("scale", "patch"): scale.patch,
    ("binding", "create"): binding.bind,
    ("eviction", "create"): eviction.evict,
    ("log", "get"): log.log,
    **{(name, verb): connect.connect for name in _CONNECTED for verb in ("get", "create")},
    ("token", "create"): serviceaccount.request_token,
}
_METHODS = frozenset({"get", "head", "post", "put", "patch", "delete", "options", "other"})
_NAMED = frozenset({"get", "update", "patch", "delete"})
_EVERYWHERE = frozenset({"list", "watch", "create"})
_ONLY_CREATED = frozenset({"create"})  # of reviews and bindings: none has a path of its own


_SCOPES_MAX = 5_000


class DispatchServices(RequestServices, AggregationServices, Protocol):
    """Combines the services for resources of this server and of others."""


class NonResourcePaths(Protocol):
    async def serve(self, request: Request) -> Response: ...

    def is_built_in(self, group: str) -> bool: ...


class Dispatcher:
    """Looks the resource up in the table at each request: definitions come and go."""

    def __init__(self, services: DispatchServices, paths: NonResourcePaths) -> None:
        self._services = services
        self._paths = paths
        self._scopes: dict[tuple[str, str, str, str], Scope] = {}

    async def dispatch(self, request: Request) -> Response:
        info = request.info
        if not info.is_resource:
            return await self._paths.serve(request)
        if info.path.startswith("//"):  # no root of any route
            return not_found()
        resource = self._services.table.resource(info.group, info.version, info.resource)
        if resource is None:
            return await self._unknown(request)
        if not self._is_placed(info, resource):
            return self._misplaced(info, resource)
        if warning := deprecation_warning(resource, self._services.environment.version):
            request.warnings.append(warning)
            self._services.metrics.deprecated(info, removed_release(resource))
        scope = self._scope(info, resource)
        if info.subresource == "proxy" and "proxy" in resource.subresources:
            return await self._proxied(request, scope)
        if request.method == "HEAD" and not resource.custom:  # which has no route upstream
            raise _refused(info, resource)
        try:
            if info.verb == "watch" and request.method != "GET":  # a path below /watch
                raise _refused(info, resource)
            handler = self._handler(info, resource)
            if not resource.custom:
                media_types.check_resource_accepted(request)
            return await handler(request, scope)
        except StorageError as error:
            raise errors.internal(str(error)) from error

    async def _proxied(self, request: Request, scope: Scope) -> Response:
        if request.method not in proxy.METHODS:
            raise _refused(request.info, scope.resource)
        return await proxy.proxy(request, scope)

    async def _unknown(self, request: Request) -> Response:
        """Answers a Status below a group and version that is served; below others plain text, as upstream's
        mux.
        """
        info = request.info
        remote = self._services.registered.get().remotes.get((info.group, info.version))
        served = dict(self._services.table.groups()).get(info.group, ())
        if remote is not None and info.version not in served:
            from kubeskew.apiserver.aggregation.proxy_handler import proxy  # it brings an HTTP client

            return await proxy(self._services, remote, request)
        if info.version not in served:
            if self._paths.is_built_in(info.group):
                raise errors.unknown_path()
            return not_found()
        found = self._services.table.resources(info.group, info.version)
        if any(resource.custom for resource in found):
            return not_found()
        raise errors.unknown_path()

    def _scope(self, info: RequestInfo, resource: Resource) -> Scope:
        key = (info.group, info.version, info.resource, info.subresource)
        scope = self._scopes.get(key)
        if scope is None or scope.resource is not resource:
            if len(self._scopes) >= _SCOPES_MAX:  # scopes of deleted definitions stay here
                self._scopes.clear()
            scope = Scope(self._services, resource, self._services.registry(resource), info.subresource)
            self._scopes[key] = scope
        return scope

    def _is_placed(self, info: RequestInfo, resource: Resource) -> bool:
        """Paths must have a namespace exactly where the resource wants one."""
        if info.resource == "namespaces":
            return not info.namespace or info.parts[1:2] == (info.namespace,)
        if not resource.namespaced:
            return not info.namespace
        if resource.custom:
            return bool(info.namespace) or info.verb in {"list", "watch"}
        return bool(info.namespace) or (_is_everywhere(info, resource) and info.verb in _EVERYWHERE)

    def _misplaced(self, info: RequestInfo, resource: Resource) -> Response:
        """Built-in kinds are looked for by upstream's router, which knows the list of all namespaces."""
        if resource.custom:
            return not_found()
        if resource.namespaced and _is_everywhere(info, resource):
            raise _refused(info, resource)
        raise errors.unknown_path()

    def _handler(self, info: RequestInfo, resource: Resource) -> ResourceHandler:
        if not resource.custom and len(info.parts) > (1 if resource.verbs <= _ONLY_CREATED else 3):
            raise errors.unknown_path()
        if info.subresource:
            return self._of_subresource(info, resource)
        # Since 1.34 it is refused as what an apply creates is, where admission stands.
        features = self._services.features.requests
        if (
            info.verb == "create"
            and features.applies_while_terminating
            and takes_nothing_new(resource, features)
        ):
            raise _terminating(info)
        if (
            info.verb not in (STANDARD_VERBS if resource.custom else resource.verbs)
            or info.verb not in _VERBS
        ):
            raise _refused(info, resource)
        if resource.storage_resource == "bindings":
            return binding.bind
        if info.verb in _NAMED and len(info.parts) < 2:
            raise errors.bad_request("name must be provided") if resource.custom else _refused(info, resource)
        if info.verb == "create" and len(info.parts) > 1 and not resource.custom:
            raise _refused(info, resource)
        if resource.namespaced and info.verb == "create" and not info.namespace:
            raise _refused(info, resource)
        if resource.storage_resource in REVIEWS:
            return reviewing.post_review
        if resource.storage_resource == componentstatus.RESOURCE:
            return componentstatus.get if info.verb == "get" else componentstatus.list_objects
        return _VERBS[info.verb]

    def _of_subresource(self, info: RequestInfo, resource: Resource) -> ResourceHandler:
        subresource = resource.subresources.get(info.subresource)
        if subresource is None:
            if resource.custom:
                raise errors.not_found(resource.group_resource, info.name)
            raise errors.unknown_path()
        if info.verb not in subresource.verbs:
            raise _refused(info, resource)
        handler = _SUBRESOURCES.get((info.subresource, info.verb))
        if handler is not None:
            return handler
        if subresource.gvk[::2] != resource.gvk[::2] or info.verb not in _VERBS:
            raise errors.unknown_path()
        return _VERBS[info.verb]


def _is_everywhere(info: RequestInfo, resource: Resource) -> bool:
    """True for the list of all namespaces, which only listable resources have."""
    return len(info.parts) == 1 and "list" in resource.verbs


def is_served(table: ResourceTable, info: RequestInfo) -> bool:
    """Includes requests for no resource, by a known method."""
    if not info.is_resource:
        return info.verb in _METHODS
    resource = table.resource(info.group, info.version, info.resource)
    if resource is None or info.verb not in _VERBS:
        return False
    return not info.subresource or info.subresource in resource.subresources


def not_found() -> Response:
    return text(404, "404 page not found\n")


def _terminating(info: RequestInfo) -> StatusError:
    error = errors.method_not_supported(GroupResource(info.group, info.resource), info.verb)
    error.message = f"{info.verb} not allowed while custom resource definition is terminating"
    return error


def _refused(info: RequestInfo, resource: Resource) -> StatusError:
    """Built-in kinds get the 405 of upstream's router, custom ones that of its handler."""
    if resource.custom:
        return errors.method_not_supported(GroupResource(info.group, info.resource), info.verb)
    return errors.unknown_method()
