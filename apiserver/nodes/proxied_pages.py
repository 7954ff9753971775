"""Rewrites the links of a backend's pages, so that a browser follows them through the proxy.

Source: k8s.io/apimachinery/pkg/util/proxy/transport.go, 1.36.
"""

import gzip
import html
import posixpath
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from html.parser import HTMLParser
from urllib.parse import SplitResult, urlsplit, urlunsplit

from kubeskew.apiserver.http.request import Response
from kubeskew.apiserver.nodes.proxy import BackendResponse, streamed

_QUOTES = {ord('"'): "&#34;", ord("'"): "&#39;"}  # as Go escapes them
_PAGE_BYTES = 16 * 1024 * 1024  # larger pages are passed on as they are
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
    """The links of a page that was asked for below `prefix`, the path of the proxy, of a backend at one of
    `hosts`."""

    def __init__(self, prefix: str, *hosts: str) -> None:
        self._prefix, self._hosts = prefix, {"", *hosts}

    def rewritten(self, link: str) -> str:
        """Relative links and those to others stay as they are."""
        try:
            parts = urlsplit(link)
        except ValueError:
            return link
        if parts.netloc not in self._hosts or not parts.path.startswith("/"):
            return link
        path = parts.path
        if not path.startswith(self._prefix):
            slash = "/" if path.endswith("/") else ""
            path = posixpath.normpath(f"{self._prefix}/{path}") + slash
        return urlunsplit(SplitResult("", "", path, parts.query, parts.fragment))


async def with_proxied_links(answer: BackendResponse, links: Links) -> Response:
    """Streams the answer; a page is read first, and changed."""
    response = streamed(answer)
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
    pieces = answer.pieces()
    page = bytearray()
    async for piece in pieces:
        page += piece
        if len(page) > _PAGE_BYTES:
            response.body = _rest(bytes(page), pieces)
            return response
    decode, encode = codec
    try:
        changed = rewrite(decode(bytes(page)), links.rewritten)
    except (OSError, EOFError, zlib.error):  # it is not in the encoding that it names
        response.body = bytes(page)
        return response
    response.body, response.length = encode(changed), None
    return response


async def _rest(beginning: bytes, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield beginning
    async for piece in pieces:
        yield piece


def _inflated(data: bytes) -> bytes:
    return zlib.decompress(data, -zlib.MAX_WBITS)


def _deflated(data: bytes) -> bytes:
    deflating = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return deflating.compress(data) + deflating.flush()


_CODECS: Mapping[str, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    "": (bytes, bytes),
    "gzip": (gzip.decompress, lambda data: gzip.compress(data, mtime=0)),
    "deflate": (_inflated, _deflated),
}


def rewrite(page: bytes, rewritten: Callable[[str], str]) -> bytes:
    """Writes all start tags anew, as upstream does, with their links changed; the rest stays."""
    text = page.decode(errors="surrogateescape")
    tags = _StartTags(text, rewritten)
    tags.feed(text)
    tags.close()
    found, end = [], 0
    for begins, length, tag in tags.found:
        found += [text[end:begins], tag]
        end = begins + length
    return "".join([*found, text[end:]]).encode(errors="surrogateescape")


class _StartTags(HTMLParser):
    """Finds the start tags of a text: where each begins, how long it is, and what is to be there."""

    def __init__(self, text: str, rewritten: Callable[[str], str]) -> None:
        super().__init__(convert_charrefs=False)
        self.found: list[tuple[int, int, str]] = []
        self._rewritten = rewritten
        self._lines = [0]
        for line in text.split("\n"):
            self._lines.append(self._lines[-1] + len(line) + 1)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add(tag, attrs, ">")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add(tag, attrs, "/>")

    def _add(self, tag: str, attributes: list[tuple[str, str | None]], end: str) -> None:
        line, column = self.getpos()
        written = [f"<{tag}"]
        for name, value in attributes:
            changed = self._rewritten(value or "") if name in _URLS.get(tag, ()) else value or ""
            written.append(f' {name}="{html.escape(changed, quote=False).translate(_QUOTES)}"')
        length = len(self.get_starttag_text() or "")
        self.found.append((self._lines[line - 1] + column, length, "".join([*written, end])))
