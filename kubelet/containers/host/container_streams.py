"""The standard streams of a container: its output goes to the log and to the clients that are attached."""

import asyncio
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field

from kubeskew.kubelet.containers.host.log_writer import LogWriter

_READ_BYTES = 65_536
_MOST_UNSENT = 4 * 1024 * 1024  # of an attached client; one that lags more is dropped
_NAMES = ("stdout", "stderr")


@dataclass(slots=True, eq=False)
class _Client:
    """An attached client's end of one output stream."""

    fd: int
    unsent: bytearray = field(default_factory=bytearray)


class ContainerStreams:
    """The shim's ends of a container's streams, from `open` until `end`."""

    def __init__(self, log: LogWriter, *, tty: bool) -> None:
        self.log = log
        self.drained = asyncio.Event()  # no process has an output stream open, or nobody reads it any more
        self._tty = tty
        self._terminal: socket.socket | None = None  # by which the container passes its terminal
        self._stdin = -1  # the writing end, or the terminal
        self._outputs: dict[str, int] = {}  # reading ends by name
        self._clients: dict[str, list[_Client]] = {name: [] for name in _NAMES}

    def open(self, *, stdin: bool) -> list[int]:
        """Makes the streams; the container's ends in order, which the caller closes."""
        if self._tty:
            self._terminal, there = socket.socketpair()
            return [there.detach()]
        if stdin:
            first, self._stdin = os.pipe()
        else:
            first = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        inner = [first]
        for name in _NAMES:
            self._outputs[name], writing = os.pipe()
            inner.append(writing)
        return inner

    def begin(self) -> None:
        """Reads what the container writes from now on; its program runs."""
        if self._terminal is not None:
            self._take_terminal(self._terminal)
            self._terminal = None
        for name, fd in self._outputs.items():
            os.set_blocking(fd, False)
            asyncio.get_running_loop().add_reader(fd, self._read_output, name)
        if not self._outputs:
            self.drained.set()

    def _take_terminal(self, answer: socket.socket) -> None:
        with answer:
            answer.setblocking(False)
            try:
                _data, fds, _flags, _address = socket.recv_fds(answer, 64, 1)
            except OSError:
                return
        if fds:
            os.set_inheritable(fds[0], False)
            self._stdin = os.dup(fds[0])
            self._outputs["stdout"] = fds[0]

    def end(self) -> None:
        """Closes all."""
        if self._terminal is not None:
            self._terminal.close()
        for name in [*self._outputs]:
            self._close_output(name)
        self.log.close()
        self._close_input()

    # -- clients

    def attach(self, files: Sequence[int], *, stdin: bool) -> list[int]:
        """Adds pipes that get the output from now on; a copy of the container's input, if it is wanted and
        there is one."""
        for name, fd in zip(_NAMES, files, strict=False):
            copy = os.dup(fd)
            os.set_blocking(copy, False)
            self._clients[name].append(_Client(copy))
        return [os.dup(self._stdin)] if stdin and self._stdin >= 0 else []

    def end_input(self) -> None:
        """Ends the container's standard input; a terminal has no end."""
        if not self._tty:
            self._close_input()

    def _close_input(self) -> None:
        if self._stdin >= 0:
            os.close(self._stdin)
            self._stdin = -1

    # -- output

    def _read_output(self, name: str) -> None:
        try:
            data = os.read(self._outputs[name], _READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:  # a terminal that no process has open
            data = b""
        if not data:
            self._close_output(name)
            return
        self.log.write(name, data)
        for client in [*self._clients[name]]:
            self._send(name, client, data)

    def _send(self, name: str, client: _Client, data: bytes) -> None:
        waiting = bool(client.unsent)
        client.unsent += data
        if len(client.unsent) > _MOST_UNSENT:
            self._drop(name, client)
        elif not waiting:
            self._flush(name, client)

    def _flush(self, name: str, client: _Client) -> None:
        loop = asyncio.get_running_loop()
        try:
            while client.unsent:
                del client.unsent[: os.write(client.fd, client.unsent[:_READ_BYTES])]
        except BlockingIOError:
            loop.add_writer(client.fd, self._flush, name, client)
            return
        except OSError:
            self._drop(name, client)
            return
        loop.remove_writer(client.fd)
        if name not in self._outputs:
            self._drop(name, client)

    def _drop(self, name: str, client: _Client) -> None:
        if client in self._clients[name]:
            self._clients[name].remove(client)
            asyncio.get_running_loop().remove_writer(client.fd)
            os.close(client.fd)

    def _close_output(self, name: str) -> None:
        fd = self._outputs.pop(name, None)
        if fd is None:
            return
        asyncio.get_running_loop().remove_reader(fd)
        os.close(fd)
        self.log.close_stream(name)
        for stream in _NAMES if self._tty else (name,):
            for client in [*self._clients[stream]]:
                if not client.unsent:
                    self._drop(stream, client)
        if not self._outputs:
            self.drained.set()
