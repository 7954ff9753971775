"""A request has a scope: its resource, its body, its author, what it writes and owns, and admission of it.

Admission here is that of requests that write no object: bindings, evictions, scales, tokens, connections.

Source: k8s.io/apiserver/pkg/endpoints/handlers/{create,rest}.go, 1.36.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import Resource, Subresource
from kubeskew.apimachinery.schema import Schema
from kubeskew.apiserver.admission import CONNECT, CREATE, Attributes
from kubeskew.apiserver.authentication.authenticator import UnionAuthenticator
from kubeskew.apiserver.caching.list_cache import ListCache
from kubeskew.apiserver.caching.offload import LARGE, collection_paused, offload
from kubeskew.apiserver.caching.store_cache import TwoGenerationCache
from kubeskew.apiserver.decoding import decoder, protobuf
from kubeskew.apiserver.http import media_types, parameters
from kubeskew.apiserver.http.request import BodyBrokenError, BodyTooLargeError, Lifetime, Request
from kubeskew.apiserver.http.user_agents import component_of
from kubeskew.apiserver.nodes.connections import NodeConnections
from kubeskew.apiserver.object_meta import SYSTEM_METADATA
from kubeskew.apiserver.registry.codec import Form
from kubeskew.apiserver.registry.generic.field_managers import manager_name
from kubeskew.apiserver.registry.generic.registry import Registry, WriteRequest
from kubeskew.apiserver.registry.generic.services import RegistryServices
from kubeskew.apiserver.serviceaccount.tokens import AccountKeys
from kubeskew.apiserver.storage.records import Author


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
        given=request.given,
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


_DELETE_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
MAX_BODY_BYTES = 3 * 1024 * 1024
_Made = TypeVar("_Made")


async def read_body(request: Request, limit: int = MAX_BODY_BYTES) -> bytes:
    """Raises 413 beyond `limit` bytes, 400 if the body breaks off."""
    try:
        body = await request.read_body(limit)
    except BodyTooLargeError:
        raise errors.entity_too_large(limit) from None
    except BodyBrokenError as error:
        raise errors.bad_request(f"the body cannot be read: {error}") from None
    request.size = len(body)
    if request.size > LARGE:
        request.hold(collection_paused(request.size))
    return body


async def in_thread(body: bytes, work: Callable[[], _Made]) -> _Made:
    """Other requests are served meanwhile if `work` takes long."""
    return await offload(len(body), work)


async def read_object(request: Request, scope: Scope, validation: str) -> Object:
    """The object is of the scope's kind: decoded, defaulted, in the version it was sent to."""
    resource = scope.resource
    content_type = body_type(request, None if resource.custom else resource.schema)
    body = await read_body(request)
    if not resource.custom and not decoder.is_protobuf(content_type):
        request.given = lambda: decoder.parse(body, content_type).value
    return await in_thread(body, lambda: decode_object(request, scope, body, content_type, validation))


def body_type(request: Request, schema: Schema | None) -> str:
    """`schema` is None for custom resources; raises 415."""
    content_type = request.headers.get("content-type", "")
    if content_type == media_types.JSON:  # nearly always; other types depend on the schema
        return content_type
    readable = schema is not None and protobuf.is_known(schema)
    return media_types.body_type(content_type, protobuf=readable)


def decode_object(request: Request, scope: Scope, body: bytes, content_type: str, validation: str) -> Object:
    """The object has its defaults; warnings go to the request. Raises 400."""
    decoded = decoder.decode(body, content_type, scope.resource, scope.services.table, validation)
    request.warnings.extend(decoded.warnings)
    obj = decoded.object
    obj.setdefault("metadata", {})
    return scope.services.codec.default(obj, scope.resource)


async def read_other(
    request: Request, scope: Scope, target: Resource | Subresource, schema: Schema, validation: str
) -> Object:
    """`target` is another kind than the scope's: Scale and Binding, for instance."""
    content_type = body_type(request, schema)
    body = await read_body(request)
    table = scope.services.table
    decoded = await in_thread(
        body, lambda: decoder.decode(body, content_type, target, table, validation, schema)
    )
    request.warnings.extend(decoded.warnings)
    return decoded.object


def delete_options_schema(scope: Scope) -> Schema:
    found = scope.services.definition(_DELETE_OPTIONS)
    if found is None:
        raise errors.internal(f"there is no {_DELETE_OPTIONS}")
    return found


def check_namespace(obj: Object, scope: Scope, namespace: str) -> None:
    """Sets the request's namespace, or raises 400 if the object names another."""
    metadata = obj["metadata"]
    if not scope.resource.namespaced:
        metadata.pop("namespace", None)
        return
    if not metadata.get("namespace"):
        metadata["namespace"] = namespace
    elif metadata["namespace"] != namespace:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def check_name(obj: Object, name: str) -> None:
    """Raises 400 if the object has no name, or another than the request."""
    found = obj["metadata"].get("name") or ""
    if not found:
        why = f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        raise errors.bad_request(why)
    if found != name:
        raise errors.bad_request(
            f"the name of the object ({found}) does not match the name on the URL ({name})"
        )


def wipe_system_metadata(obj: Object) -> None:
    for name in SYSTEM_METADATA:
        obj["metadata"].pop(name, None)


def attributes_of(
    request: Request,
    scope: Scope,
    operation: str,
    body: Object | None,
    old: Object | None = None,
    *,
    dry_run: bool = False,
) -> Attributes:
    """`body` is what was posted to the subresource of the scope."""
    registry, info = scope.registry, request.info
    named = (body or {}).get("metadata") or {}
    return Attributes(
        operation,
        registry.resource,
        scope.subresource,
        info.namespace,
        info.name or named.get("name") or "",
        body,
        old,
        request.user,
        dry_run,
        scope.resource,
        {} if operation == CONNECT else parameters.given_options(request),
        request.warnings,
    )


async def admit_posted(request: Request, scope: Scope, body: Object, *, dry_run: bool = False) -> None:
    """`body` may be changed. Raises StatusError."""
    attributes = attributes_of(request, scope, CREATE, body, dry_run=dry_run)
    await scope.services.admission.admit(attributes)
    await scope.services.admission.validate(attributes)


async def admit_connection(request: Request, scope: Scope, options: Object) -> None:
    """Exec, attach, port-forward and proxy connect; raises StatusError.

    `options` is the PodExecOptions, PodAttachOptions, PodPortForwardOptions or *ProxyOptions of the request,
    with apiVersion and kind.
    """
    attributes = attributes_of(request, scope, CONNECT, options)
    await scope.services.admission.admit(attributes)
    await scope.services.admission.validate(attributes)
