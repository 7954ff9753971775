"""The one place that turns an error into a `Status` on the wire."""

from apimachinery import protobuf
from apimachinery.errors import Object, StatusError
from apiserver import media_types
from apiserver.encoding import dumps, indented
from apiserver.request import Request, Response, text


def response(request: Request, error: StatusError) -> Response:
    """The answer that `error` is, in the media type that the client accepts (JSON if none fits)."""
    body = error.status()
    if media_types.takes_protobuf_only(request.headers.get("accept", "")):
        result = Response(error.code, protobuf.encode_status(body), media_types.PROTOBUF)
    else:
        result = _written(request, error.code, body)
    if error.retry_after:
        result.headers.append(("Retry-After", str(error.retry_after)))
    return result


def _written(request: Request, code: int, body: Object) -> Response:
    """A Status as YAML or JSON: indented for people, and where the client takes none of it."""
    try:
        form = media_types.accepted(request.headers.get("accept", ""), convertible=False)
    except StatusError:
        return Response(code, indented(body))
    if form.media_type == media_types.YAML:
        from apiserver.yaml_text import to_yaml  # it brings a parser

        return Response(code, to_yaml(body), media_types.YAML)
    query, agent = request.param("pretty") or "", request.headers.get("user-agent", "")
    if form.pretty or media_types.for_people(query, agent):
        return Response(code, indented(body))
    return Response(code, dumps(body) + b"\n")


def panic(request: Request) -> Response:
    """The answer to an error that nobody foresaw; what it was stands in the server's log alone."""
    why = "This request caused apiserver to panic. Look in the logs for details."
    if request.path.startswith(("/api/", "/apis/")):
        return response(request, StatusError(500, "InternalError", why))
    return text(500, why + "\n")
