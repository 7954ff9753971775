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
from kubeskew.apiserver.registry.generic.writes import WriteResult
from kubeskew.apiserver.registry.requests.scope import Scope
from kubeskew.apiserver.storage.encoding import dumps, indented, loads, with_revision

_OMITTING = frozenset({"validatingadmissionpolicies", "validatingadmissionpolicybindings"})
_COMPRESSED_FROM = 128 * 1024  # bytes; as upstream
_LEVEL = 1


def form_of(
    request: Request, conversions: frozenset[tuple[str, str, str]] = media_types.CONVERSIONS
) -> Accepted:
    """Returns the form in which the client wants the answer; raises 406."""
    form = media_types.accepted(request.headers.get("accept", ""), conversions)
    if form.media_type == media_types.JSON and for_people(request):
        return form._replace(pretty=True)
    return form


def for_people(request: Request) -> bool:
    """Decides whether the answer to a request is indented."""
    return media_types.for_people(request.param("pretty") or "", request.headers.get("user-agent", ""))


def plain(form: Accepted) -> Accepted:
    """Returns the same media type without a conversion: Statuses are never Tables."""
    return Accepted(form.media_type, pretty=form.pretty)


def current(request: Request, scope: Scope, value: bytes, revision: int, form: Accepted) -> Response:
    """Returns the stored object at `revision`."""
    data = scope.services.codec.served(scope.resource, value, revision)
    if form == PLAIN:
        return Response(200, with_revision(data, revision) + b"\n")
    return render(request, scope, loads(with_revision(data, revision)), form)


PLAIN = Accepted(media_types.JSON)


def written(request: Request, scope: Scope, result: WriteResult, form: Accepted) -> Response:
    """Returns the object after a write."""
    status = 201 if result.created else 200
    as_written = not scope.resource.custom or scope.resource.gvk == scope.resource.storage
    if result.value is not None and form == PLAIN and as_written:
        data = scope.services.codec.served(scope.resource, result.value, result.revision)
        return Response(status, with_revision(data, result.revision) + b"\n")
    obj = scope.services.codec.convert(result.obj, scope.resource)
    if "kind" not in obj:  # a patch took it away, and with the rest nothing changed
        obj = {"kind": scope.resource.kind, "apiVersion": scope.resource.api_version, **obj}
    return render(request, scope, obj, form, status)


def render(request: Request, scope: Scope, obj: Object, form: Accepted, status: int = 200) -> Response:
    """Returns an object in the served version, in the form asked for."""
    return document(convert(request, scope, obj, form), form, status)


def document(body: Object, form: Accepted, status: int = 200) -> Response:
    """Answers any document, as JSON or YAML."""
    if form.media_type == media_types.YAML:
        from kubeskew.apiserver.http.yaml_text import to_yaml  # it brings a parser

        return Response(status, to_yaml(body), media_types.YAML)
    if form.pretty:
        return Response(status, indented(body))
    return Response(status, dumps(body) + b"\n")


def convert(request: Request, scope: Scope, obj: Object, form: Accepted) -> Object:
    """Converts an object for the answer: as itself, as a Table of one row, or as its metadata."""
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
    """Returns the error if one object was requested as a list; its text depends on how upstream holds the
    kind.
    """
    if scope.resource.custom and kind == scope.resource.kind:
        return StatusError(500, "", "content is not a list")
    what = "you requested PartialObjectMetadataList, but the requested object is not a list"
    return _not_acceptable(f"{what} ({_go_type(scope, kind)})")


def _not_acceptable(why: str) -> StatusError:
    error = errors.not_acceptable(why)
    error.details = None
    return error


def _go_type(scope: Scope, kind: str) -> str:
    """Returns upstream's Go type of the answer: an internal type, but of custom resources."""
    if kind == "Scale":
        return "*v1.Scale" if scope.resource.custom else "*autoscaling.Scale"
    if scope.resource.custom:
        return f"*unstructured.Unstructured{'List' if kind.endswith('List') else ''}"
    group = scope.resource.storage_resource.partition(".")[2]  # events of events.k8s.io are core's
    return f"*{group.partition('.')[0] or 'core'}.{kind}"


def _revision(obj: Object) -> Object:
    """Returns the metadata of a Table of one; what is never stored (a review) has no revision."""
    revision = obj["metadata"].get("resourceVersion")
    return {"resourceVersion": revision} if revision else {}


def omits_items(scope: Scope) -> bool:
    """Decides whether an empty list is without `items`: those of policies were, in old releases."""
    resource = scope.resource
    affected = resource.group == "admissionregistration.k8s.io" and resource.plural in _OMITTING
    return affected and scope.services.features.admission.omits_empty_items


def convert_list(
    request: Request, scope: Scope, items: Sequence[Object], metadata: Object, form: Accepted
) -> Object:
    """Returns a list in one of the forms that are not plain JSON of the list."""
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
    """Returns a list's metadata as a Go struct writes it, which custom resources' own lists are not."""
    return {name: value for name, value in metadata.items() if value != ""}


def included(request: Request) -> str:
    """Returns the part of an object that a row of a Table includes; raises 400."""
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
    """Returns a Table of objects; its cells are made by the module of tables."""
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
    )


async def compressed(request: Request, response: Response) -> Response:
    """Returns the same answer, compressed if it is large and the client takes that."""
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
    """Compresses the pieces of a stream with gzip, beside the loop."""
    compressor = zlib.compressobj(_LEVEL, wbits=zlib.MAX_WBITS | 16)  # 16: as a gzip file
    async for piece in pieces:
        yield await asyncio.to_thread(compressor.compress, piece)
    yield compressor.flush()
