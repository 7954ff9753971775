"""One worker: the machine that it runs on, with the log that another process writes and a listener that gets
its connections from the supervisor.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.process.runtime import end_on_signals, stop_on_signals
from kubeskew.apiserver.http.connection import Connection
from kubeskew.apiserver.http.listener import HTTPServer
from kubeskew.apiserver.http.request import Handler
from kubeskew.apiserver.machine import Listener, SystemServerMachine
from kubeskew.apiserver.options import ServerOptions
from kubeskew.apiserver.storage.factory import SQLStorage
from kubeskew.apiserver.storage.forwarding.forwarding_log import ForwardingLog
from kubeskew.apiserver.storage.forwarding.frames import Door
from kubeskew.apiserver.storage.forwarding.log_writer import LogWriter
from kubeskew.apiserver.storage.interfaces import Log
from kubeskew.apiserver.storage.sql_log import SQLLog
from kubeskew.apiserver.workers.seat import (
    ACCEPT,
    ALONE,
    ASIDE,
    CONNECTION,
    FINISHING,
    LISTENING,
    READY,
    REFUSE,
    STOOD_ASIDE,
    Seat,
)

OTHERS_SECONDS = 8.0  # for the other workers to end, before the end is recorded


class WorkerStorage(SQLStorage):
    def __init__(self, door: Door) -> None:
        self._door = door

    async def log(self, url: str, clock: Clock) -> Log:
        return await ForwardingLog.open(url, self._door)


class WorkerListener(HTTPServer):
    """Implements `machine.Listener` with connections that the supervisor has accepted."""

    def __init__(self, handler: Handler, clock: Clock, seat: Seat) -> None:
        super().__init__(handler, clock)
        self._seat = seat
        self._taken = 0
        self._refusing = False
        self._first = True
        self._alone = asyncio.Event()
        self._adopting: dict[asyncio.Task[None], None] = {}

    async def listen(self, options: ServerOptions) -> int:
        self.prepare(options)
        self._first = options.worker.first
        asyncio.get_running_loop().add_reader(self._seat.connection.fileno(), self._hear)
        self._seat.say(LISTENING)
        return options.secure_port

    async def share(self, options: ServerOptions) -> None:
        """Does nothing: the supervisor accepts there, too."""

    def _hear(self) -> None:
        heard = self._seat.hear()
        if heard is None:
            return
        message, descriptors = heard
        if message == CONNECTION:
            for descriptor in descriptors:
                self._take(socket.socket(fileno=descriptor))
        elif message == ASIDE:
            self._abort_all()
            self._seat.say(STOOD_ASIDE)
        elif message == ALONE:
            self._alone.set()
        else:  # the supervisor has ended
            os._exit(0)

    def _take(self, connection: socket.socket) -> None:
        self._taken += 1
        if self._closing or self._refusing:
            connection.close()
            self._report()
            return
        connection.setblocking(False)
        task = asyncio.create_task(self._adopt(connection))
        self._adopting[task] = None
        task.add_done_callback(self._adopting.pop)

    async def _adopt(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(self._connect, connection, ssl=self._tls)
        except (OSError, asyncio.CancelledError):  # the client has gone, or speaks no TLS
            connection.close()
        self._report()

    def _report(self) -> None:
        self._seat.load(self._taken, len(self._connections))

    def _lost(self) -> None:
        super()._lost()
        self._report()

    async def refuse_during(self, outage: Awaitable[None]) -> None:
        self._refusing = True
        self._seat.say(REFUSE)
        self._abort_all()
        await outage
        self._refusing = False
        if not self._closing:
            self._seat.say(ACCEPT)

    def _abort_all(self) -> None:
        connections: tuple[Connection, ...] = tuple(self._connections)
        for task in tuple(self._adopting):
            task.cancel()
        for connection in connections:
            connection.abort()

    def finish(self) -> None:
        if not self._closing:
            self._seat.say(FINISHING)
        super().finish()

    async def close(self, grace_seconds: float) -> None:
        """The first worker ends after the others, so that the end that it records is that of all."""
        await super().close(grace_seconds)
        if self._first:
            try:
                async with asyncio.timeout(OTHERS_SECONDS):
                    await self._alone.wait()
            except TimeoutError:
                return


async def write_log(options: ServerOptions, machine: SystemServerMachine, door: Door) -> None:
    """Writes the log for the workers until a signal ends it. Raises StorageError."""
    stop = asyncio.Event()
    end_on_signals(machine.exit)
    event_log = await SQLLog.open(options.storage_url, machine.clock)
    stop_on_signals(stop, machine.exit)
    writer = LogWriter(event_log, door)
    writer.start()
    machine.settle()
    await stop.wait()
    await writer.close()
    await event_log.close()


class WorkerMachine(SystemServerMachine):
    def __init__(self, seat: Seat, door: Door) -> None:
        super().__init__()
        self.storage = WorkerStorage(door)
        self._seat = seat

    def listener(self, handler: Handler, clock: Clock) -> Listener:
        return WorkerListener(handler, clock, self._seat)

    def settle(self) -> None:
        super().settle()
        self._seat.say(READY)

    def kill(self, fault: str) -> None:
        """Ends the whole server: the other processes end with the supervisor."""
        os.kill(os.getppid(), signal.SIGKILL)
        super().kill(fault)
