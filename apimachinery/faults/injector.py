"""The injector carries out the faults of a component: around its requests, and in events of its watches.

A client that sends requests and an API server that answers them use the same code: `send` really sends or
answers a request. While there is no plan, `decider` is None, and callers check nothing else. Errors that a
call is answered with are worded as an API server words them. The faults of the components of one process are
read from the plan's file at the start, and again on demand.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.errors import GroupResource, StatusError
from kubeskew.apimachinery.faults.decisions import Decider, Firing, Progress, remaining
from kubeskew.apimachinery.faults.fault import Call, Effect, Fault, Kind
from kubeskew.apimachinery.faults.journal import FaultPlan, FileJournal, load_plan
from kubeskew.apimachinery.faults.streams import SINGLE_LINES, StreamForm

_LATER = "please try again later"
_UNAVAILABLE = "the server is currently unable to handle the request"
T = TypeVar("T")

FIRED = "fault-fired"
CRASHED = "crashed"
RECORDED = 20  # firings of a fault that the log's time line shows one by one; then the 32nd, the 64th, …


Arrival = tuple[float, bytes | Exception | None]  # the time, and a line or the stream's end
log = logging.getLogger(__name__)


def error_of(effect: Effect, call: Call) -> StatusError:
    """Words the error of an effect's code for a call; the fault's own message replaces the usual one."""
    resource = GroupResource(call.group, call.resource)
    error = _ERRORS[effect.code](resource, call)
    if effect.message:
        error = StatusError(error.code, error.reason, effect.message, error.details)
    if effect.retry_after is not None:
        error.details = {**(error.details or {}), "retryAfterSeconds": effect.retry_after}
    return error


def _conflict(resource: GroupResource, call: Call) -> StatusError:
    if call.verb != "create" or call.subresource:
        return errors.conflict(resource, call.name, errors.MODIFIED)
    return errors.already_exists(resource, call.name)


def _invalid(resource: GroupResource, call: Call) -> StatusError:
    return StatusError(422, "Invalid", f'{resource} "{call.name}" is invalid')


def _fixed(error: Callable[[], StatusError], _resource: GroupResource, _call: Call) -> StatusError:
    return error()


_ERRORS: Mapping[int, Callable[[GroupResource, Call], StatusError]] = {
    400: partial(_fixed, partial(errors.bad_request, "the request was refused by a fault")),
    401: partial(_fixed, errors.unauthorized),
    403: lambda resource, call: errors.forbidden(resource, call.name, "refused by a fault"),
    404: lambda resource, call: errors.not_found(resource, call.name),
    409: _conflict,
    410: partial(_fixed, partial(errors.expired, "The resourceVersion for the provided watch is too old.")),
    422: _invalid,
    429: partial(_fixed, partial(errors.too_many_requests, _LATER, 1)),
    500: partial(_fixed, partial(errors.internal, "injected by a fault")),
    503: partial(_fixed, partial(errors.service_unavailable, _UNAVAILABLE)),
    504: partial(_fixed, partial(errors.timeout, "request did not complete within the allowed duration")),
}


class RequestLostError(ConnectionResetError):
    """A fault has lost the request, its answer, or the connection of a watch."""


class Journal(Protocol):
    """Keeps the progress of faults beyond the end of the process."""

    def note(self, fault: Fault, progress: Progress) -> None:
        """Keeps a fault's counters before the fault has an effect."""
        ...


class Crash(Protocol):
    """Ends the component as SIGKILL does, because of a fault. Does not return."""

    async def __call__(self, fault: Fault, detail: str) -> None: ...


Record = Callable[[str, str], None]  # an event and its detail, for the log's time line


async def _nothing(_answer: object) -> None:
    pass


def is_recorded(count: int) -> bool:
    """Each of the first 20 firings is on the time line, then the 32nd, the 64th and so on."""
    return count <= RECORDED or count & (count - 1) == 0


class Injector:
    """The faults of one component. `apply` replaces them while it runs."""

    def __init__(self, component: str, clock: Clock, journal: Journal, crash: Crash, record: Record) -> None:
        self.component = component
        self.decider: Decider | None = None
        self.holds_events = False  # whether events of watches have to be looked at
        self.cuts: dict[Callable[[], None], None] = {}  # called while an outage refuses
        self._clock = clock
        self._journal = journal
        self._crash = crash
        self._record = record
        self._changed = asyncio.Event()
        self._dying = False
        self.seen: Counter[str] = Counter()

    def apply(self, faults: Iterable[tuple[Fault, Progress]]) -> None:
        pairs = [*faults]
        if self.decider is None:
            self.seen.clear()
        self.decider = Decider(pairs, self.seen) if pairs else None
        if self.decider is not None:
            for firing in self.decider.begin(self._now()):
                self._note(firing)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        self._outage_changed()

    def _now(self) -> float:
        return self._clock.now().timestamp()

    # -- requests

    async def inject(
        self, call: Call | None, send: Callable[[], Awaitable[T]], discard: Callable[[T], Awaitable[None]]
    ) -> T:
        """Sends, unless a fault is in the way. Raises StatusError for an answer, OSError for a lost one.

        A call of None names no resource: only an outage is in its way. `discard` takes a lost answer.
        """
        ending = await self._begin(call)
        await self._reach()
        return await self._end(ending, send, discard)

    async def inject_local(self, call: Call, send: Callable[[], Awaitable[T]]) -> T:
        """Injects as `inject` does into a call on the same machine, which no outage concerns."""
        if self.decider is None and not self._dying:
            return await send()
        return await self._end(await self._begin(call), send, _nothing)

    async def _end(
        self,
        ending: Firing | None,
        send: Callable[[], Awaitable[T]],
        discard: Callable[[T], Awaitable[None]],
    ) -> T:
        if ending is None:
            return await send()
        effect = ending.fault.effect
        if effect.kind is Kind.ANSWER:
            raise error_of(effect, ending.call or Call("", ""))
        if (effect.kind, effect.place) == (Kind.DROP, "request"):
            raise RequestLostError("Connection reset by peer")
        if effect.place == "before":
            await self._die(ending)
        answer = await send()
        if effect.place == "after":
            await self._die(ending)
        if effect.kind is Kind.DROP:
            await discard(answer)
            raise RequestLostError("Connection reset by peer")
        return answer

    async def _begin(self, call: Call | None) -> Firing | None:
        """Counts a call and delays it; None, or the firing that ends it."""
        if self._dying:
            await asyncio.Event().wait()  # nothing is sent any more
        if call is None or self.decider is None:
            return None
        delay, ending = 0.0, None
        for firing in self._decide(call):
            delay += firing.delay
            if firing.fault.effect.kind is Kind.OUTAGE:
                self._outage_changed()
            elif firing.fault.effect.kind not in (Kind.DELAY, Kind.STALE):
                ending = firing
        if delay:
            await self._clock.sleep(delay)
        return ending

    def _decide(self, call: Call) -> list[Firing]:
        """Counts a call, notes the counters in the journal and records the firings."""
        if self.decider is None:
            return []
        firings = self.decider.decide(call, self._now())
        for fault, progress in self.decider.counted:
            self._journal.note(fault, progress)
        for firing in firings:
            self._note(firing)
        return firings

    def _note(self, firing: Firing) -> None:
        fault, progress = firing.fault, firing.progress
        if not fault.when.counts or fault.at_once:
            self._journal.note(fault, progress)
        if is_recorded(progress.fired) and fault.effect.kind is not Kind.CRASH:  # it announces itself
            self._record(FIRED, str(firing))

    async def _die(self, firing: Firing) -> None:
        self._dying = True
        await self._crash(firing.fault, str(firing))
        await asyncio.Event().wait()

    # -- outages

    def outage(self) -> Fault | None:
        """None while no outage lasts."""
        return self.decider.outage(self._now()) if self.decider is not None else None

    def _outage_changed(self) -> None:
        outage = self.outage()
        hangs = outage is not None and outage.effect.place == "hang"
        self.holds_events = hangs or (self.decider is not None and self.decider.hears_events)
        if outage is not None and not hangs:
            for cut in [*self.cuts]:
                cut()

    async def _reach(self) -> None:
        """Waits until no outage is in the way. Raises ConnectionRefusedError while one refuses."""
        while (outage := self.outage()) is not None:
            if outage.effect.place == "refuse":
                raise ConnectionRefusedError(111, "connect: connection refused")
            await self.over(outage)

    async def over(self, fault: Fault) -> None:
        """Waits until a fault that lasts has lasted its time, or is no longer there."""
        while (progress := self._progress(fault)) is not None:
            left = remaining(fault, progress, self._now())
            if left == 0.0:
                return
            await self._changes(left)

    def _progress(self, fault: Fault) -> Progress | None:
        known = self.decider.faults if self.decider is not None else []
        return next((progress for each, progress in known if each == fault), None)

    async def _changes(self, seconds: float | None) -> None:
        """Waits for a change of the plan, but `seconds` at the longest."""
        waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._changed.wait())]
        if seconds is not None:
            waits.append(asyncio.ensure_future(self._clock.sleep(seconds)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    # -- events of watches

    async def lines(
        self,
        watch: Call,
        lines: AsyncIterator[bytes],
        check: Callable[[], None] = lambda: None,
        form: StreamForm = SINGLE_LINES,
    ) -> AsyncGenerator[bytes, None]:
        """Yields the lines of a watch as its faults let them through. Raises OSError where it breaks off.

        `check` is called at the end of the lines, and may raise an error for it. In another `form` the stream
        has other events than lines.
        """
        try:
            async for line in lines:
                if self.holds_events:
                    async with aclosing(self._held(watch, line, lines, form)) as held:
                        async for each in held:
                            yield each
                    return
                yield line
            check()
        finally:
            close = getattr(lines, "aclose", None)
            if close is not None:
                await close()

    async def _held(
        self, watch: Call, first: bytes, rest: AsyncIterator[bytes], form: StreamForm
    ) -> AsyncGenerator[bytes, None]:
        """Yields the lines from `first` on. They are taken in as they come, however long they are held."""
        arrived: asyncio.Queue[Arrival] = asyncio.Queue()
        for line in form.split(first):
            arrived.put_nowait((self._now(), line))
        taking = asyncio.create_task(self._take(rest, arrived, form), name=f"events of {watch.resource}")
        try:
            while True:
                at, piece = await arrived.get()
                if isinstance(piece, Exception):
                    raise piece
                if piece is None:
                    return
                event = form.call(watch, piece)
                ending = await self._hold(event, at) if event is not None else None
                if ending is None:
                    yield piece
                    if not arrived.empty():
                        await asyncio.sleep(0)  # so that clients can react to an event before the next one
                elif ending.fault.effect.kind is Kind.CRASH:
                    if ending.fault.effect.place == "after":
                        yield piece
                    await self._die(ending)
                elif ending.fault.effect.kind is Kind.DROP:
                    raise RequestLostError("Connection reset by peer")
                else:
                    status = error_of(ending.fault.effect, watch).status()
                    yield form.error(status)
                    return
        finally:
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)

    async def _take(
        self, lines: AsyncIterator[bytes], into: asyncio.Queue[Arrival], form: StreamForm
    ) -> None:
        try:
            async for several in lines:
                for line in form.split(several):
                    into.put_nowait((self._now(), line))
        except Exception as error:  # raised again by the reader of the lines
            into.put_nowait((self._now(), error))
        else:
            into.put_nowait((self._now(), None))

    async def _hold(self, event: Call, arrived: float) -> Firing | None:
        """Waits as long as an event is held back; None, or the firing that ends the watch instead of it."""
        due, ending = arrived, None
        for firing in self._decide(event):
            due += firing.delay
            if firing.fault.effect.kind is Kind.STALE:
                await self.over(firing.fault)
            elif firing.fault.effect.kind is not Kind.DELAY:
                ending = firing
        if due > (now := self._now()):
            await self._clock.sleep(due - now)
        while (outage := self.outage()) is not None and outage.effect.place == "hang":
            await self.over(outage)
        return ending


class ProcessFaults:
    """The injectors of a process, by component, with the plan and journals in a directory."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._injectors: dict[str, tuple[Injector, FileJournal]] = {}
        self._plan = self._read(FaultPlan())

    def injector(self, component: str, crash: Crash, record: Record) -> Injector:
        """Registers a component; its injector has the faults of the plan until `forget`."""
        journal = FileJournal(self._directory, component)
        injector = Injector(component, self._clock, journal, crash, record)
        self._injectors[component] = injector, journal
        self._apply(injector, journal)
        return injector

    def forget(self, component: str) -> None:
        """Unregisters a component that has left the process."""
        known = self._injectors.pop(component, None)
        if known is not None:
            known[1].close()

    def planned(self, component: str) -> Sequence[Fault]:
        """Reads the faults of the plan as it is now, which need not be in effect yet."""
        return [entry.fault for entry in self._read(self._plan).of(component)]

    def reload(self) -> None:
        """Reads the plan again, and notes in the journals that it is in effect."""
        self._plan = self._read(self._plan)
        for injector, journal in [*self._injectors.values()]:
            self._apply(injector, journal)

    def _read(self, former: FaultPlan) -> FaultPlan:
        try:
            return load_plan(self._directory)
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.error("faults stay as they are: cannot use %s: %s", self._directory, error)
            return former

    def _apply(self, injector: Injector, journal: FileJournal) -> None:
        entries = self._plan.of(injector.component)
        try:
            injector.apply(journal.take_up(entries, journal.account()))
            journal.applied(self._plan.revision, injector.seen)
        except OSError as error:
            log.error("no faults: cannot use the journal of %s: %s", injector.component, error)
