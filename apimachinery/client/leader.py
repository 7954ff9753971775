"""Leader election through a Lease, as k8s.io/client-go/tools/leaderelection does it.

A graceful stop gives the lease back, so that a restarted component leads at once; after a crash the next
holder waits until the lease has not been renewed for its whole duration *as observed by itself*.

An event about the lease says who leads. Upstream also records that a process stopped leading, but the process
ends before that event is written.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kubeskew.apimachinery.client.recorder import EventRecorder
from kubeskew.apimachinery.client.refs import LEASES
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient, FailureLog
from kubeskew.apimachinery.clock import Clock, micro_timestamp
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.periods import DEFAULT_PERIODS, Periods

log = logging.getLogger(__name__)

_FAILURES = (*CONNECTION_ERRORS, StatusError)

_RELEASE_TRIES = 3
_RELEASE_PAUSE_SECONDS = 0.1
_RELEASE_SECONDS = 5.0  # for all tries: a component that stops does not wait long for a server that hangs


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """Seconds; upstream's defaults of `--leader-elect-*`."""

    lease_duration: float = DEFAULT_PERIODS.lease_duration
    renew_deadline: float = DEFAULT_PERIODS.lease_renew_deadline
    retry_period: float = DEFAULT_PERIODS.lease_retry


class LeadershipLost(Exception):  # noqa: N818 - upstream's text is "leaderelection lost"
    """The lease could not be renewed in time; `lead` has ended."""


class LeaderElector:
    def __init__(
        self,
        client: APIClient,
        clock: Clock,
        name: str,
        namespace: str,
        identity: str,
        *,
        timing: LeaseTiming | None = None,
        component: str = "",
        periods: Periods = DEFAULT_PERIODS,
    ) -> None:
        """`component` is the source of the event that it leads; without one there is no event."""
        self._client = client
        self._clock = clock
        self._name = name
        self._namespace = namespace
        self._identity = identity
        self._timing = timing or LeaseTiming()
        self._periods = periods
        self._component = component
        self._lease: Object = {}  # as last written
        self._observed: Object = {}  # the last lease spec seen
        self._observed_at = 0.0  # monotonic
        self._failures = FailureLog(log, clock)

    async def run(self, stop: asyncio.Event, lead: Callable[[asyncio.Event], Awaitable[None]]) -> None:
        """Waits for the lease, then runs `lead(ended)` and renews the lease meanwhile.

        `ended` is set when `stop` is set or the lease is lost; `lead` must then return soon. It may also
        return by itself. The lease is given back afterwards. Raises LeadershipLost if it was lost.
        """
        if not await self._acquire(stop):
            return
        log.info("successfully acquired lease %s/%s", self._namespace, self._name)
        recorder = EventRecorder(self._client, self._clock, self._component) if self._component else None
        if recorder is not None:
            self._record(recorder)
        try:
            await self._lead(stop, lead)
        finally:
            if recorder is not None:
                await recorder.close()

    async def _lead(self, stop: asyncio.Event, lead: Callable[[asyncio.Event], Awaitable[None]]) -> None:
        ended = asyncio.Event()
        leading = asyncio.ensure_future(lead(ended))
        renewing = asyncio.create_task(self._renew())
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({leading, renewing, stopping}, return_when=asyncio.FIRST_COMPLETED)
            lost = renewing.done() and not stop.is_set()
            ended.set()
            await leading
        finally:
            for task in (leading, renewing, stopping):
                task.cancel()
            await asyncio.gather(leading, renewing, stopping, return_exceptions=True)
        if lost:
            raise LeadershipLost("leaderelection lost")
        await self._release()

    async def run_again(self, stop: asyncio.Event, lead: Callable[[asyncio.Event], Awaitable[None]]) -> None:
        """Runs `run` until `stop` is set, again each time the lease is lost.

        Upstream's process ends when it loses the lease, and its supervisor starts it again; this process has
        no supervisor.
        """
        while not stop.is_set():
            try:
                await self.run(stop, lead)
            except LeadershipLost:
                log.exception("leaderelection lost; standing again")

    def _record(self, recorder: EventRecorder) -> None:
        lease = {**self._lease, "apiVersion": LEASES.api_version, "kind": LEASES.kind}
        recorder.event(lease, "Normal", "LeaderElection", f"{self._identity} became leader")

    async def _acquire(self, stop: asyncio.Event) -> bool:
        """True once the lease is held, False if `stop` came first."""
        stopping = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                trying = asyncio.create_task(self._try())
                await _first(trying, stopping)
                if trying.cancelled():
                    return False
                held = trying.result()
                if held:
                    return True
                pause = self._periods.lease_unanswered if held is None else self._timing.retry_period
                await _first(asyncio.create_task(self._clock.sleep(pause)), stopping)
        finally:
            stopping.cancel()
        return False

    async def _renew(self) -> None:
        """Ends when the lease has not been renewed for the renew deadline."""
        renewed = self._clock.monotonic()
        while True:
            await self._clock.sleep(self._timing.retry_period)
            if await self._try():
                renewed = self._clock.monotonic()
            elif self._clock.monotonic() - renewed >= self._timing.renew_deadline:
                log.error("failed to renew lease %s/%s", self._namespace, self._name)
                return

    async def _try(self) -> bool | None:
        """Tries once to take or renew the lease; None if there was no answer."""
        try:
            async with asyncio.timeout(self._timing.renew_deadline):
                return await self._take_or_renew()
        except _FAILURES as error:
            self._report(error)
            return None

    def _report(self, error: Exception) -> None:
        """Logs refusals of the server, but neither conflicts nor an unreachable server, which are normal."""
        text = f"error retrieving or updating lease {self._namespace}/{self._name}: {error}"
        if isinstance(error, StatusError) and error.code != 409:
            self._failures.failed(text)
        else:
            log.debug("%s", text)

    async def _take_or_renew(self) -> bool:
        now = self._clock.now()
        try:
            lease = await self._client.get(LEASES, self._name, self._namespace)
        except StatusError as error:
            if error.code != 404:
                raise
            self._lease = await self._client.create(LEASES, self._new_lease(now))
            return True
        spec = lease.get("spec") or {}
        self._observe(spec)
        holder = spec.get("holderIdentity") or ""
        if holder and holder != self._identity and self._held(spec):
            return False
        transitions = spec.get("leaseTransitions") or 0
        ours = holder == self._identity
        acquired = spec.get("acquireTime") if ours else None
        lease["spec"] = self._spec(now, acquired, transitions if ours else transitions + 1)
        self._lease = await self._client.update(LEASES, lease)
        self._observe(self._lease["spec"])
        return True

    def _observe(self, spec: Object) -> None:
        if spec != self._observed:
            self._observed = spec
            self._observed_at = self._clock.monotonic()

    def _held(self, spec: Object) -> bool:
        # Clocks of machines differ, so only the time since this process last saw a change counts.
        duration = spec.get("leaseDurationSeconds") or self._timing.lease_duration
        return self._clock.monotonic() < self._observed_at + duration

    async def _release(self) -> None:
        """Gives the lease back, in a few tries: the next leader would wait for its end otherwise.

        A try may meet a renewal that was under way when its task was cancelled, or a server that is busy.
        """
        failure: Exception | None = None
        try:
            async with asyncio.timeout(_RELEASE_SECONDS):
                for _ in range(_RELEASE_TRIES):
                    try:
                        await self._give_back()
                        return
                    except _FAILURES as error:
                        failure = error
                    await self._clock.sleep(_RELEASE_PAUSE_SECONDS)
        except TimeoutError as error:
            failure = failure or error
        log.info("failed to release lease %s/%s: %s", self._namespace, self._name, failure)

    async def _give_back(self) -> None:
        lease = await self._client.get(LEASES, self._name, self._namespace)
        spec = lease.get("spec") or {}
        if spec.get("holderIdentity") != self._identity:
            return
        lease["spec"] = released(spec, self._clock.now())
        await self._client.update(LEASES, lease)

    def _spec(self, now: datetime, acquired: str | None, transitions: int) -> Object:
        moment = micro_timestamp(now)
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(self._timing.lease_duration),
            "acquireTime": acquired or moment,
            "renewTime": moment,
            "leaseTransitions": transitions,
        }

    def _new_lease(self, now: datetime) -> Object:
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": self._spec(now, None, 0),
        }


def released(spec: Object, now: datetime) -> Object:
    """Keeps nothing of the holder but the number of transitions; the duration of 1 s is upstream's."""
    moment = micro_timestamp(now)
    return {
        "holderIdentity": "",
        "leaseDurationSeconds": 1,
        "acquireTime": moment,
        "renewTime": moment,
        "leaseTransitions": spec.get("leaseTransitions") or 0,
    }


async def _first(work: asyncio.Task[Any], stopping: asyncio.Task[Any]) -> None:
    """Waits until `work` is done; cancels it if the component has to stop before."""
    try:
        await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not work.done():
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
