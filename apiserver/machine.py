"""Machine of an API server: that of any component, with storage and a listener."""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Protocol

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.process.machine import Machine, SystemMachine
from kubeskew.apiserver.http.listener import HTTPServer
from kubeskew.apiserver.http.request import Handler
from kubeskew.apiserver.storage.factory import SQLStorage, Storage

if TYPE_CHECKING:
    from kubeskew.apiserver.options import ServerOptions


class Listener(Protocol):
    async def listen(self, options: "ServerOptions") -> int:
        """Port 0 is any; returns the port. Raises OSError."""
        ...

    async def share(self, options: "ServerOptions") -> None:
        """Accepts requests also on the port that a cluster's servers share. Raises OSError."""
        ...

    async def refuse_during(self, outage: Awaitable[None]) -> None:
        """Refuses requests, and breaks off those under way, until the outage is over. Raises OSError."""
        ...

    def finish(self) -> None: ...

    async def close(self, grace_seconds: float) -> None:
        """Answers under way go on for `grace_seconds`, then they are broken off."""
        ...


class ServerMachine(Machine, Protocol):
    @property
    def storage(self) -> Storage: ...

    def listener(self, handler: Handler, clock: Clock) -> Listener: ...


class SystemServerMachine(SystemMachine):
    """Runs on this interpreter, with databases and sockets."""

    def __init__(self) -> None:
        super().__init__()
        self.storage: Storage = SQLStorage()

    def listener(self, handler: Handler, clock: Clock) -> Listener:
        return HTTPServer(handler, clock)
