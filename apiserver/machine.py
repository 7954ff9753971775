"""The machine that an API server runs on: that of any component, with storage and a listener."""

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
    """Takes requests to a server's handler."""

    async def listen(self, options: "ServerOptions") -> int:
        """Accepts requests as the options say, and returns the port; port 0 is any. Raises OSError."""
        ...

    async def share(self, options: "ServerOptions") -> None:
        """Accepts requests also on the port that a cluster's servers share. Raises OSError."""
        ...

    async def refuse_during(self, outage: Awaitable[None]) -> None:
        """Refuses requests, and breaks off those that are under way, until the outage is over."""
        ...

    def finish(self) -> None:
        """Accepts nothing more; what is under way goes on."""
        ...

    async def close(self, grace_seconds: float) -> None:
        """Lets answers under way go on for so long, then ends them."""
        ...


class ServerMachine(Machine, Protocol):
    """The interface of an API server's process to the machine it runs on."""

    @property
    def storage(self) -> Storage: ...

    def listener(self, handler: Handler, clock: Clock) -> Listener: ...


class SystemServerMachine(SystemMachine):
    """The machine of this interpreter, with databases and sockets."""

    def __init__(self) -> None:
        super().__init__()
        self.storage: Storage = SQLStorage()

    def listener(self, handler: Handler, clock: Clock) -> Listener:
        return HTTPServer(handler, clock)
