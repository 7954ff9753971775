"""Rewrites the links of a backend's pages, so that a browser follows them through the proxy.

Source: k8s.io/apimachinery/pkg/util/proxy (transport.go, upgradeaware.go), 1.36.
"""

import gzip
import io
import posixpath
import re
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit

from kubeskew.apimachinery.errors import StatusError
from kubeskew.apiserver.caching.offload import LARGE, offload
from kubeskew.apiserver.http.request import Response
from kubeskew.apiserver.nodes.html_tags import rewrite_tags
from kubeskew.apiserver.nodes.proxy import BackendResponse, streamed

_PAGE_BYTES = 16 * 1024 * 1024  # larger pages, packed or unpacked, are passed on as they are
_PATH = "$&+,/:;=@"  # what Go leaves in a path
_NO_URL = re.compile(r"^ |[\0-\x1f\x7f]")  # Go takes it for no URL, or a relative one
_NO_PATH = re.compile("%(?![0-9a-fA-F]{2})")
_CORS = frozenset(
    f"access-control-allow-{what}" for what in ("credentials", "headers", "methods", "origin")
)  # said by the API server, not by backends
# The attributes of each element that are URLs.
_URLS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("a", "area", "base", "link"), ("href",)),
    **dict.fromkeys(("audio", "embed", "script", "source"), ("src",)),
    **dict.fromkeys(("blockquote", "del", "ins", "q"), ("cite",)),
    **dict.fromkeys(("frame", "iframe"), ("longdesc", "src")),
    "applet": ("codebase",),
    "body": ("background",),
    "button": ("formaction",),
    "command": ("icon",),
    "form": ("action",),
    "head": ("profile",),
    "html": ("manifest",),
    "img": ("longdesc", "src", "usemap"),
    "input": ("src", "usemap", "formaction"),
    "object": ("classid", "codebase", "data", "usemap"),
    "video": ("poster", "src"),
}


class Links:
    """The links of a page that was asked for below `prefix`, the path of the proxy, of the backend at
    `backend`; the client asked the host `requested`."""

    def __init__(self, prefix: str, backend: str, requested: str) -> None:
        self._prefix, self._backend, self._requested = prefix, backend, requested

    def rewritten(self, link: str) -> str:
        """Relative links and those to others stay as they are; those to the host that the client asked keep
        their scheme and host.
        """
        if _NO_URL.search(link):
            return link
        try:
            parts = urlsplit(link)
        except ValueError:
            return link
        user, at, host = parts.netloc.rpartition("@")
        if host not in {"", self._backend, self._requested} or not parts.path.startswith("/"):
            return link
        if _NO_PATH.search(parts.path) or _NO_PATH.search(parts.fragment):
            return link
        kept = (parts.scheme, parts.netloc) if host == self._requested else ("", user + at)
        path = parts.path
        plain = unquote(path, errors="surrogateescape")
        if not plain.startswith(self._prefix):
            slash = "/" if plain.endswith("/") else ""
            plain = posixpath.normpath(f"{self._prefix}/{plain}") + slash
            path = quote(plain, safe=_PATH, errors="surrogateescape")
        return urlunsplit(SplitResult(*kept, path, parts.query, parts.fragment))

    def changed(self, element: str, attribute: str, value: str) -> str:
        return self.rewritten(value) if attribute in _URLS.get(element, ()) else value


def forwarded_uri(prefix: str, path: str) -> str:
    """Returns the header by which a backend learns where its path is for the client."""
    slash = "/" if path.endswith("/") else ""
    return quote(posixpath.normpath(f"{prefix}/{path}") + slash, safe=_PATH)


async def with_proxied_links(answer: BackendResponse, links: Links) -> Response:
    """Streams the answer; a page is read first, and changed. Raises 500 if the page cannot be read."""
    response = streamed(answer)
    response.headers = [(name, value) for name, value in response.headers if name.lower() not in _CORS]
    location = answer.header("location")
    if location:
        response.headers = [
            (name, links.rewritten(location) if name.lower() == "location" else value)
            for name, value in response.headers
        ]
        return response
    if answer.header("content-type").partition(";")[0].strip() != "text/html" or answer.bodiless:
        return response
    codec = _CODECS.get(answer.header("content-encoding"))
    if codec is None or answer.status in {204, 304}:
        return response
    decode, encode = codec
    pieces = answer.pieces()
    page = bytearray()
    try:
        async for piece in pieces:
            page += piece
            if len(page) > _PAGE_BYTES:
                response.body = _rest(bytes(page), pieces)
                return response
        body = bytes(page)
        size = len(body) if decode is bytes else LARGE + 1  # what is packed may be large
        changed = await offload(size, lambda: _changed(body, decode, encode, links))
    except ConnectionResetError:
        raise StatusError(500, "", _CUT_SHORT) from None
    except (OSError, EOFError, zlib.error) as error:  # it is not in the encoding that it names
        raise StatusError(500, "", _CUT_SHORT if isinstance(error, EOFError) else str(error)) from None
    if changed is None:
        response.body = body
    else:
        response.body, response.length = changed, None
    return response


_CUT_SHORT = "unexpected EOF"


_Codec = Callable[[bytes], bytes]


def _changed(page: bytes, decode: _Codec, encode: _Codec, links: Links) -> bytes | None:
    """Returns None if the page is too large when it is unpacked."""
    unpacked = decode(page)
    return None if len(unpacked) > _PAGE_BYTES else encode(rewrite_tags(unpacked, links.changed))


async def _rest(beginning: bytes, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield beginning
    async for piece in pieces:
        yield piece


# -- encodings; what unpacks them stops above the limit


def _gunzipped(data: bytes) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
        return packed.read(_PAGE_BYTES + 1)


def _gzipped(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def _inflated(data: bytes) -> bytes:
    """Raises EOFError."""
    inflating = zlib.decompressobj(-zlib.MAX_WBITS)
    found = inflating.decompress(data, _PAGE_BYTES + 1)
    if not inflating.eof and len(found) <= _PAGE_BYTES:
        raise EOFError
    return found


def _deflated(data: bytes) -> bytes:
    deflating = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return deflating.compress(data) + deflating.flush()


_CODECS: Mapping[str, tuple[_Codec, _Codec]] = {
    "": (bytes, bytes),
    "gzip": (_gunzipped, _gzipped),
    "deflate": (_inflated, _deflated),
}
