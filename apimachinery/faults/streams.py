"""Forms of the streams that answer watches: what the injector has to know of their bytes.

An API server's own streams and those of its clients are lines of JSON. A stream of another form, such as
protobuf's, brings its own class.
"""

from collections.abc import Sequence
from typing import Final, Protocol

import orjson

from kubeskew.apimachinery.faults.fault import Call, event_of
from kubeskew.apimachinery.objects import Object


class StreamForm(Protocol):
    """Takes the pieces of a stream apart."""

    def split(self, piece: bytes) -> Sequence[bytes]:
        """Takes a piece of the stream apart into events."""
        ...

    def call(self, watch: Call, event: bytes) -> Call | None:
        """The event as a call that faults may select; None for what no fault concerns."""
        ...

    def error(self, status: Object) -> bytes:
        """An ERROR event with this Status."""
        ...


class Lines:
    """Events are lines of JSON. Where lines have an `end`, several may come at once."""

    def __init__(self, end: bytes = b"") -> None:
        self._end = end

    def split(self, piece: bytes) -> Sequence[bytes]:
        return piece.splitlines(keepends=True) if self._end else [piece]

    def call(self, watch: Call, event: bytes) -> Call:
        return event_of(watch, event)

    def error(self, status: Object) -> bytes:
        return orjson.dumps({"type": "ERROR", "object": status}) + self._end


SINGLE_LINES: Final = Lines()  # as a client splits them
ENDED_LINES: Final = Lines(b"\n")  # as a server sends them
