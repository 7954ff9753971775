"""Writes and reads the bytes around bodies: status lines and headers.

What cannot be read is answered as Go's net/http does (server.go, 1.25): plain text and the end of the
connection.
"""

from collections.abc import Iterable
from http import HTTPStatus

from multidict import CIMultiDict

RawHeaders = list[tuple[bytes, bytes]]

_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}
_LINE_BREAKS = str.maketrans("\r\n", "  ")


def status_line(status: int) -> bytes:
    """Returns the first line of an answer."""
    return _STATUS_LINES.get(status) or f"HTTP/1.1 {status} status code {status}\r\n".encode()


def fields(content_type: str, headers: Iterable[tuple[str, str]]) -> bytes:
    """Returns header lines; line breaks in values become spaces, for a client may have written them."""
    lines = [f"Content-Type: {content_type}\r\n"] if content_type else []
    for name, value in headers:
        if "\n" in value or "\r" in value:
            value = value.translate(_LINE_BREAKS)
        lines.append(f"{name}: {value}\r\n")
    return "".join(lines).encode("utf-8", "replace")


def refusal(status: int, detail: str = "", text: str = "") -> bytes:
    """Returns the whole answer to a head that is none, or `text` is; the connection ends with it."""
    said = f"{status} {HTTPStatus(status).phrase}{detail}"
    text = text or said
    first = f"HTTP/1.1 {said}\r\n"
    return f"{first}Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n{text}".encode()


def decoded(raw: RawHeaders) -> CIMultiDict[str]:
    """Returns headers as the rest of the server reads them: case-insensitive, repeated ones kept."""
    return CIMultiDict([(name.decode("latin-1"), value.decode("utf-8", "replace")) for name, value in raw])
