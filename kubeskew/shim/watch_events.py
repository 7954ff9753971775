"""Forms of the streams that real API servers answer watches with: lines of JSON, and frames of protobuf.

A stream goes through in the pieces in which it comes, until faults concern its events. From then on it is
taken apart; so it has to be known at any time where the next event begins, which is cheap: an end of a line,
or the length at the head of a frame.

Source: k8s.io/apimachinery/pkg/util/framer/framer.go and runtime/serializer/protobuf/protobuf.go
(RawSerializer), 1.36.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Protocol

from kubeskew.apimachinery.faults.fault import Call, event_of
from kubeskew.apimachinery.faults.streams import ENDED_LINES
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.protobuf_wire import (
    encode_bytes,
    encode_status,
    encode_text,
    namespace_and_name,
    payload,
    raw_object,
)

_TYPE, _OBJECT = 1, 2  # of meta.v1.WatchEvent
_RAW = 1  # of runtime.RawExtension
_HEAD = 4  # bytes of a frame's length


class Rest(bytes):
    """The end of an event whose beginning is with the client already, or an event that nobody can read."""


class WatchStream(Protocol):
    """One watch's stream: its form, and where in it an event begins."""

    def split(self, piece: bytes) -> Sequence[bytes]: ...

    def call(self, watch: Call, event: bytes) -> Call | None: ...

    def error(self, status: Object) -> bytes: ...

    def skip(self, data: bytes) -> None:
        """Notes bytes that have gone through as they came."""
        ...

    def take(self, data: bytes) -> Iterator[bytes]:
        """Yields whole events as soon as they are there."""
        ...

    def left(self) -> bytes:
        """Gives the part of an event that did not end."""
        ...


class JSONStream:
    def __init__(self) -> None:
        self._open = False  # in the middle of a line that is with the client in part
        self._parts: list[bytes] = []

    def split(self, piece: bytes) -> Sequence[bytes]:
        return (piece,)

    def call(self, watch: Call, event: bytes) -> Call | None:
        return None if isinstance(event, Rest) else event_of(watch, event)

    def error(self, status: Object) -> bytes:
        return ENDED_LINES.error(status)

    def skip(self, data: bytes) -> None:
        if data:
            self._open = not data.endswith(b"\n")

    def take(self, data: bytes) -> Iterator[bytes]:
        *ended_lines, rest = data.split(b"\n")
        for line in (*(line + b"\n" for line in ended_lines), *((rest,) if rest else ())):
            ended = line.endswith(b"\n")
            if self._open:
                self._open = not ended
                yield Rest(line)
            elif ended:
                whole = b"".join((*self._parts, line))
                self._parts.clear()
                yield whole
            else:
                self._parts.append(line)

    def left(self) -> bytes:
        return b"".join(self._parts)


class ProtobufStream:
    def __init__(self) -> None:
        self._head = b""  # of a length that is with the client in part
        self._due = 0  # bytes of the frame that is with the client in part
        self._buffer = bytearray()

    def split(self, piece: bytes) -> Sequence[bytes]:
        return (piece,)

    def call(self, watch: Call, event: bytes) -> Call | None:
        if isinstance(event, Rest):
            return None
        message = raw_object(event[_HEAD:])
        kind = payload(message, _TYPE).decode("utf-8", "replace")
        if not kind:
            return watch._replace(event="ERROR")
        namespace, name = namespace_and_name(raw_object(payload(payload(message, _OBJECT), _RAW)))
        return watch._replace(event=kind, namespace=namespace, name=name)

    def error(self, status: Object) -> bytes:
        event = encode_text(_TYPE, "ERROR") + encode_bytes(_OBJECT, encode_bytes(_RAW, encode_status(status)))
        return len(event).to_bytes(_HEAD, "big") + event

    def skip(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            at += self._pass(data, at)

    def _pass(self, data: bytes, at: int) -> int:
        """Notes what goes through of one length or one frame, and gives its size."""
        if self._due:
            size = min(self._due, len(data) - at)
            self._due -= size
            return size
        part = data[at : at + _HEAD - len(self._head)]
        self._head += part
        if len(self._head) == _HEAD:
            self._due, self._head = int.from_bytes(self._head, "big"), b""
        return len(part)

    def take(self, data: bytes) -> Iterator[bytes]:
        at = 0
        while at < len(data) and (self._due or self._head):
            at += self._pass(data, at)
        if at:
            yield Rest(data[:at])
        self._buffer += data[at:]
        while len(self._buffer) >= _HEAD:
            size = _HEAD + int.from_bytes(self._buffer[:_HEAD], "big")
            if len(self._buffer) < size:
                return
            frame = bytes(self._buffer[:size])
            del self._buffer[:size]
            yield frame

    def left(self) -> bytes:
        return bytes(self._buffer)


class UnknownStream:
    """Goes through as it is: no fault concerns events that nobody here can read, such as CBOR's."""

    def split(self, piece: bytes) -> Sequence[bytes]:
        return (piece,)

    def call(self, watch: Call, event: bytes) -> Call | None:
        return None

    def error(self, status: Object) -> bytes:
        return b""

    def skip(self, data: bytes) -> None:
        """There is nothing to note."""

    def take(self, data: bytes) -> Iterator[bytes]:
        yield data

    def left(self) -> bytes:
        return b""


def stream_of(content_type: str) -> WatchStream:
    """Chooses by the answer's Content-Type, whose parameters say nothing more."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/json":
        return JSONStream()
    return ProtobufStream() if kind == "application/vnd.kubernetes.protobuf" else UnknownStream()


async def events(
    pieces: AsyncIterator[bytes], stream: WatchStream, wanted: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """Yields the pieces as they are until events are `wanted`, and single events from then on."""
    apart = False
    async for piece in pieces:
        apart = apart or wanted()
        if not apart:
            stream.skip(piece)
            yield piece
            continue
        for event in stream.take(piece):
            yield event
    if left := stream.left():
        yield Rest(left)
