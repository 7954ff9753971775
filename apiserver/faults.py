"""Injected faults: in the server's answers, in its commits, and outages.

Each fault goes to the log's time line, as the starts of components do.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.faults.fault import Call, Fault
from kubeskew.apimachinery.faults.injector import CRASHED, FIRED, ProcessFaults
from kubeskew.apimachinery.faults.streams import ENDED_LINES, StreamForm
from kubeskew.apiserver.http import statuses
from kubeskew.apiserver.http.request import ConnectionDroppedError, Handler, Request, Response
from kubeskew.apiserver.storage.interfaces import Log, StorageError
from kubeskew.apiserver.storage.records import Change, ComponentEvent, Event

Append = Callable[[Change], Awaitable[Event]]
# Gives the answer of a watch as a stream whose events are apart once they are wanted, and its form.
TakeApart = Callable[[AsyncIterator[bytes], str, Callable[[], bool]], tuple[AsyncIterator[bytes], StreamForm]]
RefuseDuring = Callable[[Awaitable[None]], Awaitable[None]]  # refuse connections until this returns

T = TypeVar("T")
log = logging.getLogger(__name__)


class ServerFaults:
    """Has faults in the answers of one server (`filter`) and in its commits (`commit`).

    `refuse_during` closes the sockets during an outage; a server that is called in process has none.


    """

    def __init__(
        self,
        directory: Path,
        name: str,
        environment: Environment,
        event_log: Log,
        end: Callable[[str], None],
    ) -> None:
        self.refuse_during: RefuseDuring | None = None
        self._name = name
        self._environment = environment
        self._log = event_log
        self._end = end
        self._waiting: deque[ComponentEvent] = deque()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._process = ProcessFaults(directory, environment.clock)
        self._injector = self._process.injector(name, self._crash, self._record)
        self._injector.cuts[self._leave] = None

    def begin(self, refuse_during: RefuseDuring) -> None:
        """`refuse_during` closes the sockets during an outage, from now on."""
        self.refuse_during = refuse_during
        self.reload()

    def reload(self) -> None:
        self._process.reload()

    def are_requests_meant(self) -> bool:
        """True if the next `reload` finds faults of others than commits."""
        return any(not fault.where.commit for fault in self._process.planned(self._name))

    async def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    # -- requests

    @property
    def active(self) -> bool:
        """True while there are faults of others than commits."""
        decider = self._injector.decider
        return decider is not None and any(not fault.where.commit for fault, _ in decider.faults)

    def filter(self, handler: Handler, take_apart: TakeApart | None = None) -> Handler:
        """Without faults, all but watches go straight to `handler`, whose watches are lines of JSON unless
        `take_apart` says otherwise.
        """
        injector = self._injector

        def inject(request: Request) -> Awaitable[Response]:
            if injector.decider is None and request.info.verb != "watch":
                return handler(request)
            return self._inject(request, handler, take_apart or _lines)

        return inject

    async def _inject(self, request: Request, handler: Handler, take_apart: TakeApart) -> Response:
        info = request.info
        call = None
        if info.is_resource:
            call = Call(
                *(info.verb, info.resource, info.group, info.subresource, info.namespace, info.name),
                request.user.name,
            )
        try:
            response = await self._injector.inject(call, lambda: handler(request), _discard)
        except StatusError as error:
            return statuses.response(request, error)
        except ConnectionError as error:
            raise ConnectionDroppedError(str(error)) from None
        if call is not None and call.verb == "watch" and isinstance(response.body, AsyncIterator):
            injector = self._injector
            lines, form = take_apart(response.body, response.content_type, lambda: injector.holds_events)
            response.body = injector.lines(call, lines, form=form)
        return response

    # -- commits

    async def commit(self, change: Change, append: Append) -> Event:
        """Appends a change to the log, unless the server dies before or after it."""
        return await self.intercept(change, lambda: append(change))

    async def intercept(self, change: Change, write: Callable[[], Awaitable[T]]) -> T:
        """Has `change` written, unless a fault is in the way. Raises StatusError for an answer, OSError for a
        lost one.
        """
        if self._injector.decider is None:
            return await write()
        key = change.key
        resource, _, group = key.resource.partition(".")
        call = Call(
            *(change.verb.value, resource, group, "", key.namespace, key.name, change.author.user),
            commit=True,
        )
        return await self._injector.inject(call, write, _forget)

    # -- outages

    def _leave(self) -> None:
        outage, task = self._injector.outage(), self._tasks.get("outage")
        if outage is not None and self.refuse_during is not None and (task is None or task.done()):
            self._tasks["outage"] = asyncio.create_task(
                self._stay_away(outage, self.refuse_during), name="outage"
            )

    async def _stay_away(self, outage: Fault, refuse_during: RefuseDuring) -> None:
        await refuse_during(self._injector.over(outage))

    # -- the time line

    def _event(self, what: str, detail: str) -> ComponentEvent:
        environment = self._environment
        return ComponentEvent(
            0,
            self._name,
            what,
            str(environment.version),
            environment.gates.flag(),
            environment.clock.now(),
            detail,
        )

    def _record(self, what: str, detail: str) -> None:
        log.warning("%s: %s", what, detail)
        self._waiting.append(self._event(what, detail))
        task = self._tasks.get("records")
        if task is None or task.done():
            self._tasks["records"] = asyncio.create_task(self._write_records(), name="records of faults")

    async def _write_records(self) -> None:
        while self._waiting:
            try:
                await self._log.record(self._waiting[0])
            except StorageError as error:
                log.warning("cannot record a fault: %s", error)
            self._waiting.popleft()

    async def _crash(self, fault: Fault, detail: str) -> None:
        log.warning("%s: %s", FIRED, detail)
        try:
            for event in [*self._waiting, self._event(FIRED, detail), self._event(CRASHED, detail)]:
                await self._log.record(event)
        except StorageError as error:
            log.warning("cannot record a crash: %s", error)
        self._end(fault.id)


def _lines(
    body: AsyncIterator[bytes], _content_type: str, _wanted: Callable[[], bool]
) -> tuple[AsyncIterator[bytes], StreamForm]:
    return body, ENDED_LINES


async def _discard(response: Response) -> None:
    close = getattr(response.body, "aclose", None)
    if close is not None:
        await close()


async def _forget(_answer: object) -> None:
    """Keeps the commit: a client's lost answer undoes nothing."""
