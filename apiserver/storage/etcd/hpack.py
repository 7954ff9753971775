"""Headers of HTTP/2 (RFC 7541): a decoder for what clients send, and an encoder that keeps no table."""

from collections import deque
from collections.abc import Sequence
from functools import lru_cache

TABLE_BYTES = 4096  # of the dynamic table, which clients may make smaller
_ENTRY_BYTES = 32  # that count for each entry besides its text

# Appendix A, from index 1 on.
_STATIC_TEXT = (
    ":authority", ":method GET", ":method POST", ":path /", ":path /index.html", ":scheme http",
    ":scheme https", ":status 200", ":status 204", ":status 206", ":status 304", ":status 400",
    ":status 404", ":status 500", "accept-charset", "accept-encoding gzip, deflate", "accept-language",
    "accept-ranges", "accept", "access-control-allow-origin", "age", "allow", "authorization",
    "cache-control", "content-disposition", "content-encoding", "content-language", "content-length",
    "content-location", "content-range", "content-type", "cookie", "date", "etag", "expect", "expires",
    "from", "host", "if-match", "if-modified-since", "if-none-match", "if-range",
    "if-unmodified-since", "last-modified", "link", "location", "max-forwards", "proxy-authenticate",
    "proxy-authorization", "range", "referer", "refresh", "retry-after", "server", "set-cookie",
    "strict-transport-security", "transfer-encoding", "user-agent", "vary", "via", "www-authenticate",
)  # fmt: skip
_STATIC: Sequence[tuple[bytes, bytes]] = tuple(
    (name.encode(), value.encode()) for name, _, value in (text.partition(" ") for text in _STATIC_TEXT)
)
# Appendix B: the lengths of the codes of all bytes, which are in order of length and byte.
_LENGTHS = bytes.fromhex(
    "0d171c1c1c1c1c1c1c181e1c1c1e1c1c1c1c1c1c1c1c1e1c1c1c1c1c1c1c1c1c"
    "060a0a0c0d06080b0a0a080b080606060505050606060606060607080f060c0a"
    "0d06070707070707070707070707070707070707070707070807080d130d0e06"
    "0f05060506050606060507070606060506070605050607070707070f0b0e0d1c"
    "1416141416161617161717171717181718181617181717171715161716171718"
    "1615141616171715171616181516171715151615171617171416161617161617"
    "1a1a1413161716191a1a1a1b1b1a181913151a1b1b1a1b1815151a1a1c1b1b1b"
    "14181415161515171616191918181a171a1b1a1a1b1b1b1b1b1c1b1b1b1b1b1a"
)
_LONGEST = 30


class HeadersError(Exception):
    """The headers cannot be decoded: the connection is of no use any more."""


def _codes() -> dict[tuple[int, int], int]:
    codes: dict[tuple[int, int], int] = {}
    code = length = 0
    for size, byte in sorted((size, byte) for byte, size in enumerate(_LENGTHS)):
        code <<= size - length
        length = size
        codes[length, code] = byte
        code += 1
    return codes


_CODES = _codes()


@lru_cache(maxsize=4096)
def huffman_decoded(data: bytes) -> bytes:
    decoded = bytearray()
    code = length = 0
    for byte in data:
        for shift in range(7, -1, -1):
            code = code << 1 | byte >> shift & 1
            length += 1
            found = _CODES.get((length, code))
            if found is not None:
                decoded.append(found)
                code = length = 0
            elif length > _LONGEST:
                raise HeadersError("no such code")
    if length > 7 or code != (1 << length) - 1:
        raise HeadersError("the last code is not complete")
    return bytes(decoded)


class HeadersDecoder:
    """One direction of a connection."""

    def __init__(self) -> None:
        self._table: deque[tuple[bytes, bytes]] = deque()
        self._size = 0
        self._limit = TABLE_BYTES

    def decode(self, block: bytes) -> list[tuple[bytes, bytes]]:
        """Raises HeadersError."""
        headers: list[tuple[bytes, bytes]] = []
        at = 0
        try:
            while at < len(block):
                first = block[at]
                if first & 0x80:
                    index, at = _number(block, at, 7)
                    headers.append(self._entry(index))
                elif first & 0x40:
                    header, at = self._literal(block, at, 6)
                    self._add(header)
                    headers.append(header)
                elif first & 0x20:
                    limit, at = _number(block, at, 5)
                    self._resize(limit)
                else:
                    header, at = self._literal(block, at, 4)
                    headers.append(header)
        except IndexError as error:
            raise HeadersError("the headers end too early") from error
        return headers

    def _literal(self, block: bytes, at: int, bits: int) -> tuple[tuple[bytes, bytes], int]:
        index, at = _number(block, at, bits)
        if index:
            name = self._entry(index)[0]
        else:
            name, at = _string(block, at)
        value, at = _string(block, at)
        return (name, value), at

    def _entry(self, index: int) -> tuple[bytes, bytes]:
        if not index:
            raise HeadersError("there is no entry 0")
        if index <= len(_STATIC):
            return _STATIC[index - 1]
        return self._table[index - len(_STATIC) - 1]

    def _add(self, header: tuple[bytes, bytes]) -> None:
        self._table.appendleft(header)
        self._size += _size(header)
        self._evict()

    def _resize(self, limit: int) -> None:
        if limit > TABLE_BYTES:
            raise HeadersError("the table cannot be so large")
        self._limit = limit
        self._evict()

    def _evict(self) -> None:
        while self._size > self._limit:
            self._size -= _size(self._table.pop())


def _size(header: tuple[bytes, bytes]) -> int:
    return len(header[0]) + len(header[1]) + _ENTRY_BYTES


def _number(block: bytes, at: int, bits: int) -> tuple[int, int]:
    most = (1 << bits) - 1
    number = block[at] & most
    at += 1
    if number < most:
        return number, at
    for shift in range(0, 28, 7):
        byte = block[at]
        at += 1
        number += (byte & 127) << shift
        if byte < 128:
            return number, at
    raise HeadersError("a number is too large")


def _string(block: bytes, at: int) -> tuple[bytes, int]:
    coded = block[at] & 0x80
    length, at = _number(block, at, 7)
    if at + length > len(block):
        raise HeadersError("the headers end too early")
    data = block[at : at + length]
    return (huffman_decoded(data) if coded else data), at + length


def encoded(headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Encodes names and values as they are, for decoders in any state."""
    block = bytearray()
    for name, value in headers:
        block += b"\x00" + _text(name) + _text(value)
    return bytes(block)


def _text(text: bytes) -> bytes:
    if len(text) < 127:
        return bytes([len(text)]) + text
    length = len(text) - 127
    encoded_length = bytearray([127])
    while length > 127:
        encoded_length.append(length & 127 | 128)
        length >>= 7
    encoded_length.append(length)
    return bytes(encoded_length) + text
