"""SPDY/3's header blocks: names and values, compressed along the whole connection with a dictionary.

Source: SPDY protocol draft 3, section 2.6.10. The dictionary is the protocol's.
"""

import zlib
from collections.abc import Mapping

_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language "
    "accept-ranges age allow authorization cache-control connection content-base content-encoding "
    "content-language content-length content-location content-md5 content-range content-type date etag "
    "expect expires from host if-match if-modified-since if-none-match if-range if-unmodified-since "
    "last-modified location max-forwards pragma proxy-authenticate proxy-authorization range referer "
    "retry-after server te trailer transfer-encoding upgrade user-agent vary via warning "
    "www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie keep-alive origin"
)
_REST = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _dictionary() -> bytes:
    return b"".join(_sized(word.replace("_", " ").encode()) for word in _WORDS.split()) + _REST.encode()


def _sized(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


DICTIONARY = _dictionary()


class HeaderError(ValueError):
    """A header block that cannot be read."""


class HeaderWriter:
    """Compresses the blocks of one direction of a connection."""

    def __init__(self) -> None:
        self._zlib = zlib.compressobj(zlib.Z_BEST_COMPRESSION, zdict=DICTIONARY)

    def write(self, headers: Mapping[str, str]) -> bytes:
        parts = [len(headers).to_bytes(4, "big")]
        for name, value in headers.items():
            parts += [_sized(name.lower().encode()), _sized(value.encode())]
        return self._zlib.compress(b"".join(parts)) + self._zlib.flush(zlib.Z_SYNC_FLUSH)


class HeaderReader:
    """Reads the blocks of one direction of a connection."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(zdict=DICTIONARY)

    def read(self, block: bytes) -> dict[str, str]:
        """Lower-case name → value. Raises HeaderError."""
        try:
            data = self._zlib.decompress(block, 1 << 20)
        except zlib.error as error:
            raise HeaderError(str(error)) from None
        if self._zlib.unconsumed_tail:
            raise HeaderError("header block too large")
        position = 4
        headers: dict[str, str] = {}
        for _ in range(int.from_bytes(data[:4], "big")):
            name, position = _string(data, position)
            value, position = _string(data, position)
            headers[name] = value
        return headers


def _string(data: bytes, start: int) -> tuple[str, int]:
    end = start + 4 + int.from_bytes(data[start : start + 4], "big")
    if end > len(data):
        raise HeaderError("header block cut off")
    return data[start + 4 : end].decode("utf-8", "replace"), end
