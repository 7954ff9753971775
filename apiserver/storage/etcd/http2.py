"""gRPC over HTTP/2 (RFC 9113) for a server: one asyncio protocol per connection.

A call costs a read and a write, and those of many calls on a connection are joined; the library's server
for asyncio takes twice the time, most of it for waking threads. Answers are sent as the client's windows
allow, and nothing is read from a client that does not read.
"""

import asyncio
import socket
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from typing import Protocol, cast
from urllib.parse import quote

from kubeskew.apiserver.storage.etcd.hpack import HeadersDecoder, HeadersError, encoded

Unary = Callable[[bytes], Awaitable[bytes]]
Streaming = Callable[[AsyncIterator[bytes]], AsyncGenerator[bytes, None]]

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _PRIORITY, _RST_STREAM, _SETTINGS, _PUSH_PROMISE, _PING, _GOAWAY, _WINDOW_UPDATE = range(9)
_CONTINUATION = 9
_END_STREAM, _ACK, _END_HEADERS, _PADDED, _PRIORITISED = 1, 1, 4, 8, 32
_NO_ERROR, _PROTOCOL_ERROR, _FLOW_CONTROL_ERROR, _STREAM_CLOSED, _FRAME_SIZE_ERROR = 0, 1, 3, 5, 6
_REFUSED_STREAM, _CANCEL, _COMPRESSION_ERROR, _ENHANCE_YOUR_CALM = 7, 8, 9, 11

_WINDOW = 65_535  # at the start, of a connection and of each stream
_OWN_WINDOW = 1 << 20  # that a client may send on a stream before it is read
_FRAME_BYTES = 16_384
_HEADER_BYTES = 64 << 10
_MOST_STREAMS = 100_000
_WAITING_BYTES = 1 << 20  # that may wait for a stream's window before its answers are held up
_BUFFERED_BYTES = 4 << 20  # that may wait for the connection
_PLAIN_BYTES = 8 << 10  # of a request of HTTP/1.1
_LARGEST_WINDOW = (1 << 31) - 1

_CONTENT_TYPE = (b"content-type", b"application/grpc")
_BEGIN = b"\x88" + encoded([_CONTENT_TYPE])
_OK = encoded([(b"grpc-status", b"0")])


class CallError(Exception):
    """A call ends with this code of gRPC and text."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class _ConnectionError(Exception):
    """The client broke the protocol; the connection ends."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Services(Protocol):
    """All that a connection needs to know of the server."""

    unary: Mapping[bytes, Unary]  # by path
    streaming: Mapping[bytes, Streaming]
    most_bytes: int  # of a message
    connections: "dict[Connection, None]"
    calls: dict[asyncio.Task[None], None]  # that go on, whether anyone waits for their answers or not

    def failed(self, error: Exception) -> CallError:
        """The answer to a call whose function raised the error."""
        ...

    def unknown(self, path: str) -> CallError:
        """The answer to a call of a method that there is not."""
        ...

    async def plain(self, path: str) -> tuple[int, str, str]:
        """Answers a GET of HTTP/1.1: status, content type, body."""
        ...


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


_SETTINGS_FRAME = _frame(
    _SETTINGS, 0, 0,
    b"\x00\x03" + _MOST_STREAMS.to_bytes(4, "big") + b"\x00\x04" + _OWN_WINDOW.to_bytes(4, "big")
    + b"\x00\x06" + _HEADER_BYTES.to_bytes(4, "big"),
)  # fmt: skip
_FIRST = _SETTINGS_FRAME + _frame(_WINDOW_UPDATE, 0, 0, ((1 << 30) - _WINDOW).to_bytes(4, "big"))


class _Stream:
    """One call."""

    __slots__ = (
        "begun", "connection", "credit", "ended", "messages", "number", "readable", "received", "task",
        "unary", "unread", "waiting", "waiting_bytes", "window", "writable",
    )  # fmt: skip

    def __init__(self, connection: "Connection", number: int, window: int) -> None:
        self.connection = connection
        self.number = number
        self.window = window  # that the client has left for us
        self.credit = 0  # bytes that were read, and of which the client does not know
        self.unread = 0  # bytes that came and were not taken
        self.received = bytearray()  # of a message that has not come as a whole
        self.messages: deque[bytes] = deque()
        self.ended = False  # by the client
        self.begun = False  # headers were sent
        self.unary: Unary | None = None
        self.task: asyncio.Task[None] | None = None
        self.readable: asyncio.Event | None = None
        self.waiting: deque[memoryview | bytes] = deque()  # for the window
        self.waiting_bytes = 0
        self.writable: asyncio.Event | None = None

    async def requests(self) -> AsyncIterator[bytes]:
        """Yields the client's messages, until it ends its side."""
        self.readable = asyncio.Event()
        while True:
            while self.messages:
                message = self.messages.popleft()
                self.connection.give_credit(self, len(message) + 5)
                yield message
            if self.ended:
                return
            self.readable.clear()
            await self.readable.wait()


class Connection(asyncio.Protocol):
    def __init__(self, services: Services) -> None:
        self._services = services
        self._buffer = bytearray()
        self._started = False
        self._decoder = HeadersDecoder()
        self._streams: dict[int, _Stream] = {}
        self._last_stream = 0
        self._window = _WINDOW
        self._stream_window = _WINDOW
        self._frame_bytes = _FRAME_BYTES
        self._credit = 0
        self._block = b""  # headers that go on in the next frame
        self._block_stream = 0
        self._block_flags = 0
        self._out: list[bytes] = []
        self._blocked: dict[int, _Stream] = {}  # streams with data that wait for a window
        self._paused = False
        self._plain: asyncio.Task[None] | None = None

    # the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self._loop = asyncio.get_running_loop()
        self._transport.set_write_buffer_limits(high=_BUFFERED_BYTES)
        if (connection := transport.get_extra_info("socket")) is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._services.connections[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._services.connections.pop(self, None)
        for number in list(self._streams):
            self._drop(number)
        self._blocked.clear()
        if self._plain is not None:
            self._plain.cancel()

    def pause_writing(self) -> None:
        self._paused = True
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._paused = False
        self._transport.resume_reading()
        self._unblock()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        try:
            if not self._started and not self._start():
                return
            self._read_frames()
        except _ConnectionError as error:
            self._fail(error.code, str(error))
        except HeadersError as error:
            self._fail(_COMPRESSION_ERROR, str(error))

    def _start(self) -> bool:
        begun = bytes(self._buffer[: len(PREFACE)])
        if not PREFACE.startswith(begun):
            self._answer_plainly()
            return False
        if len(begun) < len(PREFACE):
            return False
        del self._buffer[: len(PREFACE)]
        self._started = True
        self._send(_FIRST)
        return True

    def close(self) -> None:
        """Ends the connection once what was sent has gone out."""
        if not self._transport.is_closing():
            self._fail(_NO_ERROR, "")

    def _fail(self, code: int, text: str) -> None:
        if self._started:
            last = self._last_stream.to_bytes(4, "big")
            self._out.append(_frame(_GOAWAY, 0, 0, last + code.to_bytes(4, "big") + text.encode()))
        self._flush()
        self._transport.close()

    def _send(self, data: bytes) -> None:
        """All that is sent in one turn of the loop goes out together."""
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(data)

    def _flush(self) -> None:
        if self._credit:
            self._out.insert(0, _frame(_WINDOW_UPDATE, 0, 0, self._credit.to_bytes(4, "big")))
            self._credit = 0
        if self._out and not self._transport.is_closing():
            data = b"".join(self._out)
            self._out.clear()
            self._transport.write(data)

    # HTTP/1.1: health, version and metrics

    def _answer_plainly(self) -> None:
        if self._plain is not None:
            return
        head, end, _ = bytes(self._buffer).partition(b"\r\n\r\n")
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if end and len(words) == 3 and words[0] == b"GET":
            self._plain = self._loop.create_task(self._answer(words[1].decode("latin-1")))
        elif end or len(self._buffer) > _PLAIN_BYTES:
            self._transport.close()

    async def _answer(self, path: str) -> None:
        status, kind, text = await self._services.plain(path)
        body = text.encode()
        head = (
            f"HTTP/1.1 {status} {'OK' if status == 200 else 'Error'}\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self._transport.write(head.encode() + body)
        self._transport.close()

    # frames

    def _read_frames(self) -> None:
        buffer = self._buffer
        at, end = 0, len(buffer)
        while end - at >= 9:
            length = int.from_bytes(buffer[at : at + 3], "big")
            if length > _FRAME_BYTES:
                raise _ConnectionError(_FRAME_SIZE_ERROR, "the frame is too large")
            if end - at - 9 < length:
                break
            stream = int.from_bytes(buffer[at + 5 : at + 9], "big") & 0x7FFFFFFF
            payload = bytes(buffer[at + 9 : at + 9 + length])
            self._read_frame(buffer[at + 3], buffer[at + 4], stream, payload)
            at += 9 + length
        del buffer[:at]

    def _read_frame(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if self._block_stream and (kind != _CONTINUATION or number != self._block_stream):
            raise _ConnectionError(_PROTOCOL_ERROR, "headers go on in the next frame only")
        if kind == _DATA:
            self._read_data(flags, number, payload)
        elif kind in (_HEADERS, _CONTINUATION):
            self._read_headers(kind, flags, number, payload)
        elif kind == _SETTINGS:
            self._read_settings(flags, payload)
        elif kind == _PING:
            if len(payload) != 8:
                raise _ConnectionError(_FRAME_SIZE_ERROR, "a ping has 8 bytes")
            if not flags & _ACK:
                self._send(_frame(_PING, _ACK, 0, payload))
        elif kind == _WINDOW_UPDATE:
            self._read_window(number, payload)
        elif kind == _RST_STREAM:
            self._drop(number)
        elif kind == _PUSH_PROMISE:
            raise _ConnectionError(_PROTOCOL_ERROR, "clients cannot push")

    def _read_headers(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if kind == _CONTINUATION and not self._block_stream:
            raise _ConnectionError(_PROTOCOL_ERROR, "there are no headers to go on with")
        if kind == _HEADERS:
            self._block = _unpadded(flags, payload)
            if flags & _PRIORITISED:
                self._block = self._block[5:]
            self._block_stream, self._block_flags = number, flags
        else:
            self._block += payload
        if len(self._block) > _HEADER_BYTES:
            raise _ConnectionError(_ENHANCE_YOUR_CALM, "the headers are too large")
        if flags & _END_HEADERS:
            block, self._block, self._block_stream = self._block, b"", 0
            self._open(number, self._decoder.decode(block), bool(self._block_flags & _END_STREAM))

    def _open(self, number: int, headers: list[tuple[bytes, bytes]], ended: bool) -> None:
        known = self._streams.get(number)
        if known is not None:  # trailers
            self._end(known)
            return
        if number % 2 == 0 or number <= self._last_stream:
            raise _ConnectionError(_PROTOCOL_ERROR, "the stream's number is none of a new one")
        self._last_stream = number
        if len(self._streams) >= _MOST_STREAMS:
            self._reset(number, _REFUSED_STREAM)
            return
        stream = self._streams[number] = _Stream(self, number, self._stream_window)
        path = next((value for name, value in headers if name == b":path"), b"")
        stream.unary = self._services.unary.get(path)
        streaming = self._services.streaming.get(path)
        if streaming is not None:
            stream.task = self._loop.create_task(self._stream(stream, streaming))
        elif stream.unary is None:
            self._finish(stream, self._services.unknown(path.decode("latin-1")))
            return
        if ended:
            self._end(stream)

    def _read_data(self, flags: int, number: int, payload: bytes) -> None:
        self._credit += len(payload)
        if self._credit > _OWN_WINDOW:
            self._send(b"")
        stream = self._streams.get(number)
        if stream is None:
            if not number or number > self._last_stream:
                raise _ConnectionError(_PROTOCOL_ERROR, "data of no stream")
            return
        stream.unread += len(payload)
        if stream.unread > _OWN_WINDOW + _FRAME_BYTES:
            raise _ConnectionError(_FLOW_CONTROL_ERROR, "more came than the window has room for")
        if stream.unary is not None:
            self.give_credit(stream, len(payload))
        try:
            self._collect(stream, _unpadded(flags, payload))
        except CallError as error:
            self._finish(stream, error)
            return
        if flags & _END_STREAM:
            self._end(stream)

    def _collect(self, stream: _Stream, data: bytes) -> None:
        """Cuts what came into messages."""
        received = stream.received
        received += data
        while len(received) >= 5:
            if received[0]:
                raise CallError(12, "grpc: Decompressor is not installed for grpc-encoding")
            length = int.from_bytes(received[1:5], "big")
            if length > self._services.most_bytes:
                most = self._services.most_bytes
                raise CallError(8, f"grpc: received message larger than max ({length} vs. {most})")
            if len(received) < 5 + length:
                return
            if stream.unary is not None and stream.messages:
                raise CallError(13, "grpc: a second request came to a method that takes one")
            stream.messages.append(bytes(received[5 : 5 + length]))
            del received[: 5 + length]
            if stream.readable is not None:
                stream.readable.set()

    def _end(self, stream: _Stream) -> None:
        """The client has sent all that it sends."""
        stream.ended = True
        if stream.readable is not None:
            stream.readable.set()
        if stream.unary is not None and stream.task is None:
            if stream.messages:
                calls = self._services.calls
                stream.task = task = self._loop.create_task(
                    self._call(stream, stream.unary, stream.messages[0])
                )
                calls[task] = None
                task.add_done_callback(calls.pop)
            else:
                self._finish(stream, CallError(13, "unexpected EOF"))

    def give_credit(self, stream: _Stream, size: int) -> None:
        """The client may send as many bytes more on the stream."""
        stream.credit += size
        stream.unread -= size
        if stream.credit > _OWN_WINDOW // 2 and not stream.ended:
            self._send(_frame(_WINDOW_UPDATE, 0, stream.number, stream.credit.to_bytes(4, "big")))
            stream.credit = 0

    def _read_settings(self, flags: int, payload: bytes) -> None:
        if flags & _ACK:
            return
        if len(payload) % 6:
            raise _ConnectionError(_FRAME_SIZE_ERROR, "settings have 6 bytes each")
        for at in range(0, len(payload), 6):
            name = int.from_bytes(payload[at : at + 2], "big")
            value = int.from_bytes(payload[at + 2 : at + 6], "big")
            if name == 4:
                if value > _LARGEST_WINDOW:
                    raise _ConnectionError(_FLOW_CONTROL_ERROR, "the window is too large")
                change, self._stream_window = value - self._stream_window, value
                for stream in self._streams.values():
                    stream.window += change
            elif name == 5:
                if not _FRAME_BYTES <= value < 1 << 24:
                    raise _ConnectionError(_PROTOCOL_ERROR, "frames cannot be so large")
                self._frame_bytes = min(value, 1 << 20)
        self._send(_frame(_SETTINGS, _ACK, 0))
        self._unblock()

    def _read_window(self, number: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise _ConnectionError(_FRAME_SIZE_ERROR, "a window's update has 4 bytes")
        more = int.from_bytes(payload, "big") & 0x7FFFFFFF
        if not number:
            self._window += more
            if not more or self._window > _LARGEST_WINDOW:
                raise _ConnectionError(_FLOW_CONTROL_ERROR, "the window is too large, or has not changed")
            self._unblock()
        elif (stream := self._streams.get(number)) is not None:
            stream.window += more
            if stream.number in self._blocked:
                self._write_waiting(stream)

    # answers

    async def _call(self, stream: _Stream, answer: Unary, message: bytes) -> None:
        try:
            data = await answer(message)
        except Exception as error:
            self._finish(stream, self._services.failed(error))
        else:
            if stream.number in self._streams:
                self._write(stream, data)
                self._finish(stream, None)

    async def _stream(self, stream: _Stream, answers: Streaming) -> None:
        requests = stream.requests()
        answering = answers(requests)
        try:
            async for data in answering:
                self._write(stream, data)
                while stream.waiting_bytes > _WAITING_BYTES or self._paused:
                    stream.writable = stream.writable or asyncio.Event()
                    stream.writable.clear()
                    self._blocked[stream.number] = stream
                    await stream.writable.wait()
        except Exception as error:
            self._finish(stream, self._services.failed(error))
        else:
            self._finish(stream, None)
        finally:
            await answering.aclose()

    def _write(self, stream: _Stream, data: bytes) -> None:
        """Sends a message, or as much of it as the windows allow."""
        if not stream.begun:
            stream.begun = True
            self._send(_frame(_HEADERS, _END_HEADERS, stream.number, _BEGIN))
        message = b"\x00" + len(data).to_bytes(4, "big") + data
        size = len(message)
        if not stream.waiting and size <= min(self._frame_bytes, self._window, stream.window):
            self._window -= size
            stream.window -= size
            self._send(_frame(_DATA, 0, stream.number, message))
            return
        stream.waiting.append(memoryview(message))
        stream.waiting_bytes += size
        self._write_waiting(stream)

    def _write_waiting(self, stream: _Stream) -> None:
        waiting = stream.waiting
        while waiting:
            head = waiting[0]
            if isinstance(head, bytes):  # the end
                self._send(head)
                waiting.popleft()
                self._forget(stream)
                continue
            size = min(self._frame_bytes, self._window, stream.window, len(head))
            if size <= 0 or self._paused:
                self._blocked[stream.number] = stream
                break
            self._window -= size
            stream.window -= size
            stream.waiting_bytes -= size
            self._send(_frame(_DATA, 0, stream.number, bytes(head[:size])))
            if size == len(head):
                waiting.popleft()
            else:
                waiting[0] = head[size:]
        else:
            self._blocked.pop(stream.number, None)
        if stream.writable is not None and stream.waiting_bytes <= _WAITING_BYTES and not self._paused:
            stream.writable.set()

    def _unblock(self) -> None:
        for stream in list(self._blocked.values()):
            self._write_waiting(stream)

    def _finish(self, stream: _Stream, error: CallError | None) -> None:
        if stream.number not in self._streams:
            return
        if error is None:
            block = _OK
        else:
            text = quote(error.text, safe=" !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~").encode()
            block = encoded([(b"grpc-status", b"%d" % error.code), (b"grpc-message", text)])
        if not stream.begun:
            block = _BEGIN + block
        end = _frame(_HEADERS, _END_HEADERS | _END_STREAM, stream.number, block)
        if not stream.ended:
            end += _frame(_RST_STREAM, 0, stream.number, _NO_ERROR.to_bytes(4, "big"))
        if stream.waiting:
            stream.waiting.append(end)
        else:
            self._send(end)
            self._forget(stream)

    def _forget(self, stream: _Stream) -> None:
        self._streams.pop(stream.number, None)
        self._blocked.pop(stream.number, None)

    def _reset(self, number: int, code: int) -> None:
        self._send(_frame(_RST_STREAM, 0, number, code.to_bytes(4, "big")))

    def _drop(self, number: int) -> None:
        """The client wants no more of the stream. A call goes on: etcd commits what it was given, too."""
        stream = self._streams.pop(number, None)
        self._blocked.pop(number, None)
        if stream is not None and stream.task is not None and stream.unary is None:
            stream.task.cancel()


def _unpadded(flags: int, payload: bytes) -> bytes:
    if not flags & _PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise _ConnectionError(_PROTOCOL_ERROR, "there is more padding than frame")
    return payload[1 : len(payload) - payload[0]]
