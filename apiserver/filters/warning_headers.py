"""Warning headers with the warnings of handlers and strategies.

Source: k8s.io/apiserver/pkg/endpoints/filters/warning.go and apimachinery/pkg/util/net/http.go, 1.36.
"""

from itertools import accumulate
from unicodedata import category

from kubeskew.apiserver.http.request import Handler, Request, Response

_MOST = 4 * 1024  # characters of all texts; beyond, each text is cut, and those beyond the sum are dropped
_CUT = 256


def with_warnings(handler: Handler) -> Handler:
    """Adds a Warning header per distinct text in `request.warnings`, to errors as well."""

    async def warn(request: Request) -> Response:
        response = await handler(request)
        if request.warnings:
            response.headers.extend(_headers(request.warnings))
        return response

    return warn


def _headers(warnings: list[str]) -> list[tuple[str, str]]:
    texts = list(dict.fromkeys(text for text in warnings if text and not _has_control(text)))
    if sum(map(len, texts)) > _MOST:
        texts = [text[:_CUT] for text in texts]
        before = accumulate(map(len, texts), initial=0)
        texts = [text for text, size in zip(texts, before, strict=False) if size < _MOST]
    return [("Warning", f'299 - "{_quoted(text)}"') for text in texts]


def _has_control(text: str) -> bool:
    return any(category(char) == "Cc" for char in text)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
