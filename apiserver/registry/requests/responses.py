"""Renders objects as answers: the kept bytes where they serve, and the other forms made from them."""

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Sequence

from kubeskew.apimachinery import errors, field
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.http import media_types
from kubeskew.apiserver.http.media_types import Accepted, partial_metadata
from kubeskew.apiserver.http.request import Request, Response, Upgrade
from kubeskew.apiserver.registry.generic.registry import WriteResult
from kubeskew.apiserver.registry.requests.scope import Scope
from kubeskew.apiserver.storage.encoding import dumps, indented, loads, with_revision

_OMITTING = frozenset({"validatingadmissionpolicies", "validatingadmissionpolicybindings"})
_COMPRESSED_FROM = 128 * 1024  # bytes; as upstream
_LEVEL = 1


def form_of(
    request: Request, conversions: frozenset[tuple[str, str, str]] = media_types.CONVERSIONS
) -> Accepted:
    """Raises 406 if the client accepts none of the forms."""
    form = media_types.accepted(request.headers.get("accept", ""), conversions)
    if form.media_type == media_types.JSON and for_people(request):
        return form._replace(pretty=True)
    return form


def for_people(request: Request) -> bool:
    return media_types.for_people(request.param("pretty") or "", request.headers.get("user-agent", ""))


def plain(form: Accepted) -> Accepted:
    """Statuses are never Tables: only the media type stays."""
    return Accepted(form.media_type, pretty=form.pretty)


def current(request: Request, scope: Scope, value: bytes, revision: int, form: Accepted) -> Response:
    data = scope.services.codec.served(scope.resource, value, revision)
    if form == PLAIN:
        return Response(200, with_revision(data, revision) + b"\n")
    return render(request, scope, loads(with_revision(data, revision)), form)


PLAIN = Accepted(media_types.JSON)


def written(request: Request, scope: Scope, result: WriteResult, form: Accepted) -> Response:
    status = 201 if result.created else 200
    as_written = not scope.resource.custom or scope.resource.gvk == scope.resource.storage
    if result.value is not None and form == PLAIN and as_written:
        data = scope.services.codec.served(scope.resource, result.value, result.revision)
        return Response(status, with_revision(data, result.revision) + b"\n")
    obj = scope.services.codec.convert(result.obj, scope.resource)
    if "kind" not in obj:  # a patch removed it and changed nothing else
        obj = {"kind": scope.resource.kind, "apiVersion": scope.resource.api_version, **obj}
    return render(request, scope, obj, form, status)


def render(request: Request, scope: Scope, obj: Object, form: Accepted, status: int = 200) -> Response:
    """`obj` is in the served version."""
    return document(convert(request, scope, obj, form), form, status)


def document(body: Object, form: Accepted, status: int = 200) -> Response:
    if form.media_type == media_types.YAML:
        from kubeskew.apiserver.http.yaml_text import to_yaml  # it imports a parser

        return Response(status, to_yaml(body), media_types.YAML)
    if form.pretty:
        return Response(status, indented(body))
    return Response(status, dumps(body) + b"\n")


def convert(request: Request, scope: Scope, obj: Object, form: Accepted) -> Object:
    """Objects are answered as themselves, as a Table of one row, or as their metadata."""
    match form.convert:
        case "":
            return obj
        case "Table":
            return table(request, scope, [obj], form, _revision(obj))
        case "PartialObjectMetadata":
            return partial_metadata(obj, form.version)
        case _:
            raise _not_a_list(scope, obj["kind"])


def _not_a_list(scope: Scope, kind: str) -> StatusError:
    """One object was requested as a list; the text depends on how upstream holds the kind."""
    if scope.resource.custom and kind == scope.resource.kind:
        return StatusError(500, "", "content is not a list")
    what = "you requested PartialObjectMetadataList, but the requested object is not a list"
    return _not_acceptable(f"{what} ({_go_type(scope, kind)})")


def _not_acceptable(why: str) -> StatusError:
    error = errors.not_acceptable(why)
    error.details = None
    return error


def _go_type(scope: Scope, kind: str) -> str:
    """Upstream's Go type is an internal one, except of custom resources."""
    if kind == "Scale":
        return "*v1.Scale" if scope.resource.custom else "*autoscaling.Scale"
    if scope.resource.custom:
        return f"*unstructured.Unstructured{'List' if kind.endswith('List') else ''}"
    group = scope.resource.storage_resource.partition(".")[2]  # events of events.k8s.io are core's
    return f"*{group.partition('.')[0] or 'core'}.{kind}"


def _revision(obj: Object) -> Object:
    """Reviews are never stored, and have no revision."""
    revision = obj["metadata"].get("resourceVersion")
    return {"resourceVersion": revision} if revision else {}


def omits_items(scope: Scope) -> bool:
    resource = scope.resource
    affected = resource.group == "admissionregistration.k8s.io" and resource.plural in _OMITTING
    return affected and scope.services.features.admission.omits_empty_items


def convert_list(
    request: Request, scope: Scope, items: Sequence[Object], metadata: Object, form: Accepted
) -> Object:
    match form.convert:
        case "":
            if not scope.resource.custom:
                items = [{k: v for k, v in obj.items() if k not in {"kind", "apiVersion"}} for obj in items]
            typed = {"kind": scope.resource.list_kind, "apiVersion": scope.resource.api_version}
            shown = {} if not items and omits_items(scope) else {"items": items}
            return {**typed, "metadata": metadata, **shown}
        case "Table":
            return table(request, scope, items, form, _typed(metadata))
        case "PartialObjectMetadataList":
            return {
                "kind": "PartialObjectMetadataList",
                "apiVersion": f"meta.k8s.io/{form.version}",
                "metadata": _typed(metadata),
                "items": [partial_metadata(obj, form.version) for obj in items] or None,
            }
        case _:
            what = f"{scope.resource.kind}List"
            why = "you requested PartialObjectMetadata, but the requested object is a list"
            raise _not_acceptable(f"{why} ({_go_type(scope, what)})")


def _typed(metadata: Object) -> Object:
    """Go structs write a list's metadata without empty texts; custom resources' own lists are none."""
    return {name: value for name, value in metadata.items() if value != ""}


def included(request: Request) -> str:
    """A row includes None, Metadata or Object; raises 400."""
    include = request.param("includeObject") or "Metadata"
    if include not in {"None", "Metadata", "Object"}:
        why = "must be 'Metadata', 'Object', 'None', or empty"
        problem = field.invalid("includeObject", include, why)
        raise errors.bad_request(f"Unable to convert to Table as requested: {problem}")
    return include


def table(
    request: Request,
    scope: Scope,
    items: Sequence[Object],
    form: Accepted,
    metadata: Object,
    *,
    header: bool = True,
) -> Object:
    from kubeskew.apiserver.registry.tables import table

    include = included(request)
    return table.render(
        scope.resource,
        items,
        include_object=include,
        now=scope.services.environment.clock.now(),
        version=form.version,
        metadata=metadata,
        no_headers=not header,
        unknown_init_panics=scope.services.features.pods.unknown_init_panics,
        shows_architecture=scope.services.features.pods.shows_architecture,
    )


async def compressed(request: Request, response: Response) -> Response:
    """Large answers are compressed if the client takes that."""
    body = response.body
    small = isinstance(body, bytes) and len(body) < _COMPRESSED_FROM
    if small or isinstance(body, Upgrade) or "gzip" not in request.headers.get("accept-encoding", ""):
        return response
    if isinstance(body, bytes):
        response.body = await asyncio.to_thread(gzip.compress, body, _LEVEL, mtime=0)
    else:
        response.body = _zipped(body)
    response.headers += [("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding")]
    return response


async def _zipped(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Pieces of a stream are compressed with gzip, in a thread of their own."""
    compressor = zlib.compressobj(_LEVEL, wbits=zlib.MAX_WBITS | 16)  # 16: as a gzip file
    async for piece in pieces:
        yield await asyncio.to_thread(compressor.compress, piece)
    yield compressor.flush()
