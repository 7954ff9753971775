"""The readiness of a program: it runs, its health endpoint is content, it leads, and its informers have
settled."""

import asyncio
import logging
from collections.abc import Callable

from kubeskew.apimachinery.client.kubeconfig import ResumingContext
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.apimachinery.client.transport import HTTPTransport, Request
from kubeskew.apimachinery.process.health_checks import Health
from kubeskew.shim.leadership import Leadership
from kubeskew.shim.programs import Programs
from kubeskew.shim.traffic import Traffic

_PATHS = ("/readyz", "/healthz")  # the second one for programs that have no first one
_NOT_FOUND = 404
_OK = 200
_ANSWER_SECONDS = 2.0
_POLL_SECONDS = 0.02
_READY_POLL_SECONDS = 1.0
SETTLE_SECONDS = 5.0  # that informers may take, once nothing else is missing

log = logging.getLogger(__name__)


class Readiness:
    """Looks at a program again and again while `watch` runs; the checks say what it saw last."""

    def __init__(
        self,
        programs: Programs,
        health_url: str,
        context: ResumingContext | None,
        now: Callable[[], float],
        *,
        leadership: Leadership | None = None,
        traffic: Traffic | None = None,
        address: tuple[str, int] | None = None,
    ) -> None:
        """Programs that lead have a `leadership`, those with informers have `traffic`. Health is asked for at
        an `address`, if there is one, instead of that of the URL.
        """
        self._programs = programs
        self._leadership = leadership
        self._traffic = traffic
        self._now = now
        self._transport: HTTPTransport | None = None
        if health_url:
            self._transport = HTTPTransport(health_url, context, address=address)
        self._path = 0
        self._health: bool | str = "not asked yet" if health_url else True
        self._until: float | None = None  # the end of the time that informers may take
        self.ready = asyncio.Event()  # set by the first time, and for good
        self.ready_again = asyncio.Event()  # set since the program was started last

    def begin_again(self) -> None:
        """The program is started again: nothing is known of it."""
        self._health = "not asked yet" if self._transport is not None else True
        self._until = None
        self.ready_again.clear()
        if self._traffic is not None:
            self._traffic.settled = False
        if self._leadership is not None:
            self._leadership.leading = False

    def add_checks(self, health: Health) -> None:
        health.add_check("program", lambda: self._programs.running or "not running")
        if self._transport is not None:
            health.add_check("health", lambda: self._health)
        leadership, traffic = self._leadership, self._traffic
        if leadership is not None and leadership.name:
            health.add_check("leading", lambda: leadership.leading or "not leading")
        if traffic is not None:
            health.add_check("informers", lambda: traffic.settled or "lists and watches have not settled")

    async def watch(self) -> None:
        due = self._now()
        while True:
            if self._now() >= due:
                await self._ask()
                due = self._now() + (_READY_POLL_SECONDS if self._health is True else 0.0)
            ready = self._look()
            await asyncio.sleep(_READY_POLL_SECONDS if ready else _POLL_SECONDS)

    def _look(self) -> bool:
        leadership = self._leadership
        leads = leadership is None or leadership.leading or not leadership.name
        if not leads or self._health is not True or not self._programs.running:
            return False
        settled = self._traffic is None or self._settle(self._traffic)
        if settled:
            self.ready.set()
            self.ready_again.set()
        return settled

    def _settle(self, traffic: Traffic) -> bool:
        now = self._now()
        self._until = self._until if self._until is not None else now + SETTLE_SECONDS
        if not traffic.settle() and now >= self._until:
            log.warning("lists and watches have not settled in %.0f s", SETTLE_SECONDS)
            traffic.settled = True
        return traffic.settled

    async def _ask(self) -> None:
        if self._transport is None:
            return
        try:
            response = await self._transport(Request("GET", _PATHS[self._path], timeout=_ANSWER_SECONDS))
            content = await response.body()
            await response.close()
        except (TimeoutError, *CONNECTION_ERRORS) as error:
            self._health = f"no answer: {error}" if str(error) else "no answer"
            return
        if response.status == _NOT_FOUND and self._path == 0:
            self._path = 1
            return
        self._health = response.status == _OK or _wrong(response.status, content)

    async def close(self) -> None:
        if self._transport is not None:
            await self._transport.close()


def _wrong(status: int, content: bytes) -> str:
    """Upstream's endpoints list their checks, of which those that fail are marked."""
    lines = content.decode("utf-8", "replace").split("\n")
    failed = [line for line in lines if line.startswith("[-]")]
    return f"answered {status}: {'; '.join(failed or lines[:1])}"
