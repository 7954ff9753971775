"""Checks the media types of a request as upstream's router does before any handler sees it.

Source: github.com/emicklei/go-restful/v3 jsr311.go (detectRoute) and route.go, and what
k8s.io/apiserver/pkg/endpoints/installer.go tells it of a route, 1.36. Custom resources are not routed by it.
"""

from collections.abc import Sequence

from kubeskew.apimachinery.errors import StatusError
from kubeskew.apiserver.http import media_types
from kubeskew.apiserver.http.media_types import (
    APPLY_PATCH,
    JSON,
    JSON_PATCH,
    MERGE_PATCH,
    PROTOBUF,
    STRATEGIC_PATCH,
)
from kubeskew.apiserver.http.request import Request

ANYTHING = ("*/*",)
_STREAMED = (*media_types.ACCEPTED, f"{JSON};stream=watch", f"{PROTOBUF};stream=watch")
_PATCHES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
_CONNECTING = frozenset({"exec", "attach", "portforward", "proxy"})
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


def check_resource(request: Request) -> None:
    """Check a request about a built-in resource whose path and method are served; raises 406 and 415."""
    info = request.info
    if info.subresource in _CONNECTING:
        return
    produced: Sequence[str] = _STREAMED if info.verb in {"list", "watch"} else media_types.ACCEPTED
    if info.subresource == "log":
        produced = ("text/plain", *produced)
    check(request, produced, _PATCHES if info.verb == "patch" else ANYTHING)


def check(request: Request, produced: Sequence[str], consumed: Sequence[str] = ANYTHING) -> None:
    """Check a request to a route that consumes and produces these types; raises 406 and 415."""
    sent = request.headers.get("content-type", "") or "application/octet-stream"
    length = request.headers.get("content-length", "")
    consumes = consumed == ANYTHING or not _named(sent).isdisjoint(consumed)
    if not consumes and length not in {"", "0"}:
        raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    wanted = _named(request.headers.get("accept", "") or "*/*")
    if consumes and not wanted.isdisjoint({*produced, "*/*"}):
        return
    available = f"\n\nAvailable representations: {', '.join(produced if consumes else ())}"
    if request.method in _WITH_BODY and not length:
        raise StatusError(415, "UnsupportedMediaType", f"415: Unsupported Media Type{available}", {})
    raise StatusError(406, "NotAcceptable", f"406: Not Acceptable{available}", {})


def _named(header: str) -> set[str]:
    """Returns the media types of a header, to the letter and without parameters."""
    return {clause.partition(";")[0].strip() for clause in header.split(",")}
