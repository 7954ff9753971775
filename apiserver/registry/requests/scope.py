"""A request has a scope and an author, makes a write, and owns fields by it."""

import re
from dataclasses import dataclass
from typing import Protocol

from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.memo import remembered
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import Resource
from kubeskew.apimachinery.schema import Schema
from kubeskew.apiserver.authentication.authenticator import UnionAuthenticator
from kubeskew.apiserver.caching.list_cache import ListCache
from kubeskew.apiserver.caching.store_cache import TwoGenerationCache
from kubeskew.apiserver.http import parameters
from kubeskew.apiserver.http.request import Lifetime, Request
from kubeskew.apiserver.nodes.connections import NodeConnections
from kubeskew.apiserver.registry.codec import Form
from kubeskew.apiserver.registry.generic.field_managers import manager_name
from kubeskew.apiserver.registry.generic.registry import Registry, WriteRequest
from kubeskew.apiserver.registry.generic.services import RegistryServices
from kubeskew.apiserver.serviceaccount.tokens import AccountKeys
from kubeskew.apiserver.storage.records import Author

_PRODUCT = re.compile(r"^(?P<name>[^/ ]{1,128})[^/ ]*(?:/(?P<version>[^ ]*))?")
_RELEASE = re.compile(r"^v?(\d+\.\d+)(?:\.\d+)?(\+kep\d+)?")


@remembered(256)
def component_of(user_agent: str) -> tuple[str, str]:
    """Reads component and release of `kube-scheduler/v1.36.4 (linux/amd64) …`, as `1.36` or `1.25+kep3063`;
    empty where it does not say.
    """
    found = _PRODUCT.match(user_agent)
    if found is None:
        return "", ""
    release = _RELEASE.match(found["version"] or "")
    return found["name"], "".join(filter(None, release.groups())) if release else ""


def author_of(request: Request, server_version: str) -> Author:
    component, version = component_of(request.headers.get("user-agent", ""))
    return Author(request.user.name, component, version, server_version, request.request_id)


class RequestServices(RegistryServices, Protocol):
    """Verbs and subresources need these in addition to what registries need."""

    authenticator: UnionAuthenticator
    account_keys: AccountKeys
    lifetime: Lifetime
    nodes: NodeConnections
    listed: ListCache
    encoded_events: TwoGenerationCache[tuple[int, str, Form], bytes]

    def definition(self, name: str) -> Schema | None:
        """`name` is the OpenAPI name of a built-in type that is no resource."""

    def registry(self, resource: Resource) -> Registry: ...

    def core_object(self, plural: str, namespace: str, name: str) -> Object | None:
        """None means that the core group has no object of that name."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The resource is as served; the subresource may be empty."""

    services: RequestServices
    resource: Resource
    registry: Registry
    subresource: str = ""


def write_of(request: Request, scope: Scope, *, dry_run: bool) -> WriteRequest:
    author = author_of(request, str(scope.services.environment.version))
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
    """`new` (in the request's version) has its managedFields after this update."""
    return scope.registry.field_manager.update(
        live,
        new,
        manager_name(manager, request.headers.get("user-agent", "")),
        scope.subresource,
        timestamp(scope.services.environment.clock.now()),
        reset=scope.registry.reset_fields(write),
    )
