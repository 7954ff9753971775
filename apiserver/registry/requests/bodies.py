"""Reads a request's body and makes an object of it."""

from collections.abc import Callable
from typing import TypeVar

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import Resource, Subresource
from kubeskew.apimachinery.schema import Schema
from kubeskew.apiserver.caching.offload import LARGE, collection_paused, offload
from kubeskew.apiserver.decoding import decoder, protobuf
from kubeskew.apiserver.http import media_types
from kubeskew.apiserver.http.request import BodyBrokenError, BodyTooLargeError, Request
from kubeskew.apiserver.object_meta import SYSTEM_METADATA
from kubeskew.apiserver.registry.requests.scope import Scope

_DELETE_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
MAX_BYTES = 3 * 1024 * 1024
_Made = TypeVar("_Made")


async def read(request: Request, limit: int = MAX_BYTES) -> bytes:
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
    content_type = type_of(request, None if resource.custom else resource.schema)
    body = await read(request)
    return await in_thread(body, lambda: decode(request, scope, body, content_type, validation))


def type_of(request: Request, schema: Schema | None) -> str:
    """`schema` is None for custom resources; raises 415."""
    content_type = request.headers.get("content-type", "")
    if content_type == media_types.JSON:  # nearly always; other types depend on the schema
        return content_type
    readable = schema is not None and protobuf.is_known(schema)
    return media_types.body_type(content_type, protobuf=readable)


def decode(request: Request, scope: Scope, body: bytes, content_type: str, validation: str) -> Object:
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
    content_type = type_of(request, schema)
    body = await read(request)
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
