"""The one place that turns an error into a `Status` on the wire."""

from apimachinery import protobuf
from apimachinery.errors import StatusError
from apiserver import media_types
from apiserver.encoding import dumps
from apiserver.request import Request, Response, text


def response(request: Request, error: StatusError) -> Response:
    """The answer that `error` is, in the media type that the client accepts (JSON if none fits)."""
    body = error.status()
    if media_types.takes_protobuf_only(request.headers.get("accept", "")):
        result = Response(error.code, protobuf.encode_status(body), media_types.PROTOBUF)
    elif media_types.prefers_yaml(request.headers.get("accept", "")):
        result = Response(error.code, media_types.to_yaml(body), media_types.YAML)
    else:
        result = Response(error.code, dumps(body) + b"\n")
    if error.retry_after:
        result.headers.append(("Retry-After", str(error.retry_after)))
    return result


def panic(request: Request) -> Response:
    """The answer to an error that nobody foresaw; what it was stands in the server's log alone."""
    why = "This request caused apiserver to panic. Look in the logs for details."
    if request.path.startswith(("/api/", "/apis/")):
        return response(request, StatusError(500, "InternalError", why))
    return text(500, why + "\n")
