"""The network that the containers of one pod share: which programs listen at which ports, for HTTP.

Nothing routes the addresses of pods. A request comes from the node's server (a forwarded port, a proxy), or
from a command in a container of the same pod.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import NamedTuple


class HTTPRequest(NamedTuple):
    """One request, whole. Names of headers are as they were sent; `peer` is the address of who asks."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    peer: str = "127.0.0.1"
    version: str = "HTTP/1.1"

    def header(self, name: str) -> str:
        """Returns the first header of a name, empty if there is none."""
        return next((value for key, value in self.headers if key.lower() == name), "")


class HTTPAnswer(NamedTuple):
    """The answer to a request, without what says how long it is and whether the connection goes on."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes


Serve = Callable[[HTTPRequest], HTTPAnswer]
Enter = Callable[[datetime], None]


class PortTakenError(OSError):
    """Another program of the pod listens at the port."""


class Listener(NamedTuple):
    """A program that listens. `enter` has its clock be at the time of a request."""

    container: str  # its id
    serve: Serve
    enter: Enter

    def answer(self, request: HTTPRequest, now: datetime) -> HTTPAnswer:
        self.enter(now)
        return self.serve(request)


class PodNetwork:
    """The ports at which programs of one pod listen."""

    def __init__(self) -> None:
        self._listeners: dict[int, Listener] = {}

    def listen(self, port: int, listener: Listener) -> Callable[[], None]:
        """Takes a port; returns what gives it back. Raises PortTakenError."""
        if port in self._listeners:
            raise PortTakenError(port)
        self._listeners[port] = listener

        def give_back() -> None:
            if self._listeners.get(port) is listener:
                del self._listeners[port]

        return give_back

    def at(self, port: int) -> Listener | None:
        """Returns who listens at a port."""
        return self._listeners.get(port)


class ContainerNetwork:
    """The network of a pod as one program of a container has it."""

    def __init__(
        self,
        pod: PodNetwork,
        container: str,
        enter: Enter,
        ask: Callable[[int, HTTPRequest], HTTPAnswer | None],
    ) -> None:
        """`ask` asks for the program; `enter` is as of Listener."""
        self._pod = pod
        self._container = container
        self._enter = enter
        self.ask = ask

    def listen(self, port: int, serve: Serve) -> Callable[[], None]:
        """Takes a port; returns what gives it back. Raises PortTakenError."""
        return self._pod.listen(port, Listener(self._container, serve, self._enter))

    def listens(self, port: int) -> bool:
        """Returns whether a program of the pod listens at a port."""
        return self._pod.at(port) is not None


def header_lines(answer: HTTPAnswer, *, last: bool) -> Iterator[str]:
    """Yields the lines of an answer's head; `last` if the connection ends with it."""
    yield f"HTTP/1.1 {answer.status} {answer.reason}"
    for name, value in answer.headers.items():
        yield f"{name}: {value}"
    if answer.status not in {204, 304}:
        yield f"Content-Length: {len(answer.body)}"
    yield f"Connection: {'close' if last else 'keep-alive'}"
