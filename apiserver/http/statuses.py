"""Errors as `Status` objects on the wire; no other module writes them."""

import asyncio
import html
from collections.abc import AsyncIterator, Sequence

from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.field import show
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.decoding import protobuf
from kubeskew.apiserver.http import media_types
from kubeskew.apiserver.http.request import Request, Response, text
from kubeskew.apiserver.storage.encoding import dumps, indented

_CAUSES = 1_000


def response(request: Request, error: StatusError) -> Response:
    """The Status is in a media type that the client accepts (JSON if none fits)."""
    body = error.status()
    if media_types.takes_protobuf_only(request.headers.get("accept", "")):
        result = Response(error.code, protobuf.encode_status(body), media_types.PROTOBUF)
    else:
        result = _written(request, error.code, body)
    if error.retry_after:
        result.headers.append(("Retry-After", str(error.retry_after)))
    return result


def _written(request: Request, code: int, body: Object) -> Response:
    """JSON is indented for people, and for clients that accept neither it nor YAML."""
    try:
        form = media_types.accepted(request.headers.get("accept", ""), media_types.NO_CONVERSIONS)
    except StatusError:
        return Response(code, indented(body))
    if form.media_type == media_types.YAML:
        from kubeskew.apiserver.http.yaml_text import to_yaml  # it brings a parser

        return Response(code, to_yaml(body), media_types.YAML)
    query, agent = request.param("pretty") or "", request.headers.get("user-agent", "")
    if form.pretty or media_types.for_people(query, agent):
        return Response(code, indented(body))
    causes = (body.get("details") or {}).get("causes") or ()
    return Response(code, dumps(body) + b"\n" if len(causes) <= _CAUSES else _pieces(body, causes))


async def _pieces(body: Object, causes: Sequence[Object]) -> AsyncIterator[bytes]:
    """Gives way between pieces: a body of 3 MiB can have a million errors."""
    beginning, _, end = dumps({**body, "details": {**body["details"], "causes": []}}).rpartition(
        b'"causes":[]'
    )
    yield beginning + b'"causes":['
    for start in range(0, len(causes), _CAUSES):
        yield (b"," if start else b"") + dumps(causes[start : start + _CAUSES])[1:-1]
        await asyncio.sleep(0)
    yield b"]" + end + b"\n"


def internal_error(request: Request, why: str) -> Response:
    """Answers 500 as text, as upstream does where it cannot write a Status yet."""
    return text(500, html.escape(f"Internal Server Error: {show(request.target)}: {why}\n", quote=False))


def panic(request: Request) -> Response:
    """Only the server's log has the error itself."""
    why = "This request caused apiserver to panic. Look in the logs for details."
    if request.path.startswith(("/api/", "/apis/")):
        return response(request, StatusError(500, "InternalError", why))
    return text(500, why + "\n")
