"""Answers on the wire: the messages that are sent most, put together from bytes that are encoded once.

A key's bytes, with its value, are the same in every list and for every watcher; only the tag before them
differs. So none of the library's messages is filled for them.
"""

_SMALL = [bytes([number]) for number in range(128)]
_MASK = (1 << 64) - 1  # negative numbers are encoded as 64 bits

KVS = b"\x12"  # the tag of RangeResponse.kvs, PutResponse.prev_kv
PREV_KVS = b"\x1a"  # of DeleteRangeResponse.prev_kvs
EVENTS = b"\x5a"  # of WatchResponse.events


def varint(number: int) -> bytes:
    if 0 <= number < 128:
        return _SMALL[number]
    number &= _MASK
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def field(tag: bytes, number: int) -> bytes:
    """A number under its tag; nothing for zero, which is every number's default."""
    return tag + varint(number) if number else b""


def message(tag: bytes, body: bytes) -> bytes:
    """A message or bytes under its tag."""
    return tag + varint(len(body)) + body


class Headers:
    """Encodes ResponseHeader for one server."""

    def __init__(self, cluster_id: int, member_id: int) -> None:
        self._ids = b"\x08" + varint(cluster_id) + b"\x10" + varint(member_id)

    def header(self, revision: int) -> bytes:
        """The header as the first field of an answer."""
        return message(b"\x0a", self._ids + field(b"\x18", revision) + b"\x20\x01")

    @staticmethod
    def inner(revision: int) -> bytes:
        """The header of an answer inside of a transaction's: a revision only."""
        return message(b"\x0a", field(b"\x18", revision))


class State:
    """A key as of a revision, with its encoding as KeyValue: `pieces`, to be joined."""

    __slots__ = ("_pieces", "created", "key", "lease", "revision", "value", "version")

    def __init__(
        self, key: bytes, value: bytes | None, created: int, revision: int, version: int, lease: int
    ) -> None:
        self.key = key
        self.value = value
        self.created = created
        self.revision = revision
        self.version = version
        self.lease = lease
        self._pieces: tuple[bytes, bytes, bytes] | None = None

    @property
    def size(self) -> int:
        return len(self.key) + len(self.value or b"")

    @property
    def pieces(self) -> tuple[bytes, bytes, bytes]:
        """The length and the fields before the value, the value, and those after it."""
        pieces = self._pieces
        if pieces is None:
            pieces = self._pieces = self._encoded(self.value or b"")
        return pieces

    def _encoded(self, value: bytes) -> tuple[bytes, bytes, bytes]:
        key = self.key
        head = (
            b"\x0a" + varint(len(key)) + key + field(b"\x10", self.created) + field(b"\x18", self.revision)
            + field(b"\x20", self.version)
        )  # fmt: skip
        if value:
            head += b"\x2a" + varint(len(value))
        tail = field(b"\x30", self.lease)
        return varint(len(head) + len(value) + len(tail)) + head, value, tail

    def encoded(self) -> bytes:
        """KeyValue with its length before it."""
        return b"".join(self.pieces)

    def encoded_without_value(self) -> bytes:
        return b"".join(self._encoded(b""))

    def moved(self, revision: int) -> None:
        """The state was made for another revision than that at which it was committed."""
        if revision != self.revision:
            if self.created == self.revision:
                self.created = revision
            self.revision = revision
            self._pieces = None


class Change:
    """An event: a state and the one before it, if the key existed."""

    __slots__ = ("_event", "_with_previous", "previous", "state")

    def __init__(self, state: State, previous: State | None) -> None:
        self.state = state
        self.previous = previous
        self._event: bytes | None = None
        self._with_previous: bytes | None = None

    @property
    def event(self) -> bytes:
        """The event as a field of WatchResponse."""
        if self._event is None:
            self._event = message(EVENTS, self._body())
        return self._event

    @property
    def event_with_previous(self) -> bytes:
        """The same with `prev_kv`."""
        if self.previous is None:
            return self.event
        if self._with_previous is None:
            self._with_previous = message(EVENTS, self._body() + PREV_KVS + self.previous.encoded())
        return self._with_previous

    def _body(self) -> bytes:
        kind = b"\x08\x01" if self.state.value is None else b""
        return kind + KVS + self.state.encoded()
