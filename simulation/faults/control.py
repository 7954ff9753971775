"""The control of a simulated cluster while a plan of faults is played: begun when it is ready, healed once.

The client of a scenario goes on asking while its cluster has faults, as somebody at a keyboard would. Faults
overlap, and end in any order: a driver's switch that one held is then as the newest one has it that still
holds it, and as the scenario has it if none does.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient, user_agent
from kubeskew.apimachinery.client.transport import Request, Response, Transport
from kubeskew.apimachinery.faults.fault import FaultReport
from kubeskew.apimachinery.faults.syntax import ALL
from kubeskew.apimachinery.known_names import meant
from kubeskew.apimachinery.versions import DEFAULT_VERSION
from kubeskew.cluster import drivers
from kubeskew.cluster.failures import ClusterError, UserError
from kubeskew.cluster.platform import Platform
from kubeskew.cluster.state import StateDir
from kubeskew.conformance.controls import LocalControl
from kubeskew.conformance.evidence.log import Logged, Write
from kubeskew.conformance.evidence.rows import evidence
from kubeskew.conformance.invariants.apiserver import ReadsAlike
from kubeskew.conformance.invariants.controllers import is_heartbeat
from kubeskew.conformance.invariants.invariant import Violation
from kubeskew.conformance.invariants.judgement import judge
from kubeskew.simulation.faults.outcome import Played, longest_of, points_of, read_differences, tolerance_of
from kubeskew.simulation.faults.plan import Fault, Kind, Plan, counting_faults
from kubeskew.simulation.faults.world import World
from kubeskew.simulation.loop import SimulatedLoop
from kubeskew.simulation.machine import Site

Place = tuple[str, str]  # driver, node
_Key = tuple[str, str, str]  # driver, node, switch
_ASKING_SECONDS = 60.0  # of repeated requests, longer than outages are drawn
_ASKING_PAUSE = 0.5
_QUIET_SECONDS = 30.0  # without a change, after which a cluster has settled
_SETTLE_SECONDS = 900.0  # after which it never does
_SETTLE_WRITES = 2500  # likewise: of controllers that go round as fast as their clients' limits let them
# Longer than what upstream does again by itself: pods that did not fit are tried after five minutes, quotas
# are measured as often. What such a round mends is no fault of whoever waits for it.
_ROUND_SECONDS = 400.0
_STEP_SECONDS = 5.0
_SEEDS_A_REREAD = 4
_LONG_SECONDS = 60.0


class HeldSwitches:
    """Switches that faults hold, by fault, the newest last."""

    def __init__(self) -> None:
        self._held: dict[str, dict[_Key, Any]] = {}
        self._without: dict[_Key, Any] = {}  # values if no fault held them; null leaves one off

    def hold(self, fault: str, places: Mapping[Place, Mapping[str, Any]], wanted: Mapping[str, Any]) -> None:
        """A fault sets the `wanted` switches on these places, whose present switches are given."""
        values = {(*place, key): value for place in places for key, value in wanted.items()}
        for driver, node, key in values:
            self._without.setdefault((driver, node, key), places[driver, node].get(key))
        self._held[fault] = values

    def set_by_scenario(self, driver: str, nodes: Iterable[str], switches: Mapping[str, Any]) -> None:
        """The scenario's switches come back when faults have ended."""
        for key in [(driver, node, name) for node in nodes for name in switches]:
            if key in self._without:
                self._without[key] = switches[key[2]]

    def release(self, fault: str) -> dict[Place, dict[str, Any]]:
        """Switches to be set, by place, when a fault ends; none if it has ended before."""
        changes: dict[Place, dict[str, Any]] = {}
        for key in self._held.pop(fault, {}):
            others = [values[key] for values in self._held.values() if key in values]
            driver, node, switch = key
            changes.setdefault((driver, node), {})[switch] = others[-1] if others else self._without.pop(key)
        return changes


class PatientTransport:
    """Sends requests again that got no answer, while faults last.

    A create without an answer may have been done: if its repetition gets 409, the object that is there is the
    answer.
    """

    def __init__(self, inner: Transport, lasts: Callable[[], bool]) -> None:
        self._inner = inner
        self._lasts = lasts

    async def __call__(self, request: Request) -> Response:
        if request.timeout is None:
            return await self._inner(request)
        loop = asyncio.get_running_loop()
        end, lost = loop.time() + _ASKING_SECONDS, False
        while True:
            try:
                answer = await self._inner(request)
            except CONNECTION_ERRORS:
                if not self._lasts() or loop.time() > end:
                    raise
                lost = True
                await asyncio.sleep(_ASKING_PAUSE)
                continue
            if lost and request.method == "POST" and answer.status == 409:
                return await self._made(request) or answer
            return answer

    async def _made(self, request: Request) -> Response | None:
        """The object may come from an earlier try; None if it cannot be read."""
        try:
            name = orjson.loads(request.body or b"")["metadata"]["name"]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            return None
        path = f"{request.target.partition('?')[0]}/{name}"
        answer = await self._inner(Request("GET", path, request.headers, None, request.timeout))
        return answer if answer.status == 200 else None

    async def close(self) -> None:
        await self._inner.close()


class FaultyControl(LocalControl):
    """`LocalControl` with a plan, which `choose` returns when the cluster has started. When it stops, faults
    are healed, the cluster settles and is judged."""

    def __init__(
        self,
        directory: Path,
        platform: Platform,
        progress: Callable[[str], None],
        choose: Callable[[], Plan],
        site: Site,
        loop: SimulatedLoop,
    ) -> None:
        super().__init__(directory, platform, progress)
        self._progress = progress
        self._state_dir = StateDir(directory)
        self._site = site
        self._loop = loop
        self._choose = choose
        self._world: World
        self._turn = asyncio.Lock()  # one change of the cluster at a time, the scenario's or the plan's
        self._timed: list[asyncio.Task[None]] = []
        self._set: list[str] = []  # the plan's faults that components have
        self._switches = HeldSwitches()
        self._began = False
        self.healed = False
        self._outlasted = False
        self.played = Played(Plan())

    # -- the cluster, as the scenario steers it

    def client(self, context: str = "") -> APIClient:
        platform, agent = self._platform, user_agent("kubeskew", DEFAULT_VERSION)
        return APIClient.from_kubeconfig(
            self.kubeconfig,
            agent,
            clock=platform.clock,
            context=context or self._first_server(),
            dial=platform.dial,
            wrap=lambda transport: PatientTransport(transport, lambda: not self.healed),
        )

    async def start(self, cluster: Mapping[str, Any]) -> None:
        await super().start(cluster)
        await self._begin(self._choose())

    async def stop(self) -> None:
        try:
            if self._began:
                await self.heal("the scenario ended")
                await self._end_faults_of_the_scenario()
                await self._judge()
        finally:
            await super().stop()

    async def upgrade(self, to: str, components: Sequence[str], *, force: bool) -> None:
        async with self._turn:
            await super().upgrade(to, components, force=force)

    async def downgrade(self, to: str, components: Sequence[str], *, force: bool) -> None:
        async with self._turn:
            await super().downgrade(to, components, force=force)

    async def gates(self, gates: Mapping[str, bool | None], components: Sequence[str]) -> None:
        async with self._turn:
            await super().gates(gates, components)

    async def restart(self, component: str) -> None:
        async with self._turn:
            await super().restart(component)

    async def kill(self, component: str) -> None:
        async with self._turn:
            await super().kill(component)

    async def driver(self, name: str, nodes: Sequence[str], switches: Mapping[str, Any]) -> None:
        async with self._turn:
            self._switches.set_by_scenario(name, nodes or [*self._state_dir.load().nodes], switches)
            await super().driver(name, nodes, switches)

    async def set_fault(self, body: Mapping[str, Any]) -> str:
        async with self._turn:
            return await super().set_fault(body)

    async def clear_faults(self, name: str) -> Sequence[FaultReport]:
        """`all` takes the scenario's faults away and leaves those of the plan."""
        async with self._turn:
            if name != ALL or not self._set:
                return await super().clear_faults(name)
            known = [report.fault.id for report in await self._faults.current()]
            return await self._faults.clear(*(each for each in known if each not in self._set))

    async def faults(self) -> Sequence[FaultReport]:
        """Only the scenario's own faults are reported; none where those of the plan have fired, which may
        have met the calls that they were to meet."""
        async with self._turn:
            reports = await super().faults()
        met = any(report.fired for report in reports if report.fault.id in self._set)
        return () if met or self.disturbed else reports

    # -- the plan

    async def _begin(self, plan: Plan) -> None:
        self._began = True
        self.played = Played(plan)
        self._world = World(plan.seed, self._loop, self._site, self._state_dir)
        self._site.processes.supervisor.start_again(_times_down(plan))
        at_once = [fault for fault in plan.faults if "at" not in fault.when]
        counts = counting_faults(self._state_dir.load().components())
        await self._set_faults(*(fault for fault in at_once if fault.in_component), *counts)
        for fault in plan.faults:
            if fault not in at_once or not fault.in_component:
                self._timed.append(asyncio.create_task(self._play(fault), name=f"fault {fault.name}"))

    async def _set_faults(self, *faults: Fault) -> None:
        """A fault whose component is not there (any more) is noted and left out."""
        known = self._state_dir.load().components()
        bodies = []
        for fault in faults:
            if meant(fault.target, known):
                bodies.append(fault.component_body(self.played.plan.seed))
            else:
                self.played.notes.append(f"fault {fault.name}: there is no component {fault.target}")
        if bodies:
            async with self._turn:
                self._set += await self._faults.set(*bodies)

    async def _play(self, fault: Fault) -> None:
        """Begins a fault at its time, and ends it when it has lasted."""
        await asyncio.sleep(fault.seconds("at"))
        try:
            if fault.in_component:
                await self._set_faults(fault)
                return
            await self._begin_effect(fault)
            if "for" in fault.when:
                await asyncio.sleep(fault.seconds("for"))
                await self._end_effect(fault)
        except (ClusterError, UserError) as error:
            self.played.notes.append(f"fault {fault.name}: {error}")

    async def _begin_effect(self, fault: Fault) -> None:
        if fault.kind is Kind.DRIVER:
            await self._switch(fault)
        else:
            self._world.begin(fault)

    async def _end_effect(self, fault: Fault) -> None:
        if fault.kind is Kind.DRIVER:
            await self._switch_back(fault)
        else:
            self._world.end(fault)

    async def _switch(self, fault: Fault) -> None:
        driver, wanted = fault.target.partition("/")[2], fault.parameters["switches"]
        async with self._turn:
            state = self._state_dir.load()
            if not meant(fault.target, state.components()):
                self.played.notes.append(f"fault {fault.name}: there is no component {fault.target}")
                return
            nodes = fault.parameters.get("nodes") or [*state.nodes]
            before = state.switches.get(driver, {})
            having = [node for node in nodes if driver in drivers.entries(state.nodes[node])]
            self._switches.hold(fault.name, {(driver, node): before.get(node, {}) for node in having}, wanted)
            self._world.fired[fault.name] += 1
            await super().driver(driver, having, wanted)

    async def _switch_back(self, fault: Fault) -> None:
        async with self._turn:
            for (driver, node), switches in self._switches.release(fault.name).items():
                await super().driver(driver, [node], switches)

    @property
    def disturbed(self) -> bool:
        """Faults in components are counted only when all is healed."""
        return any(self.played.fired.values()) or any(self._world.fired.values())

    # -- the quiet phase

    async def violations(self, log: Sequence[Logged]) -> Sequence[Violation] | None:
        """A cluster with faults is judged when they are healed and it has settled."""
        return None

    async def outlast(self) -> bool:
        """Waits, once, until faults have ended that last for minutes; False if there are none."""
        longest = max((longest_of(fault) for fault in self.played.plan.faults), default=0.0)
        if self._outlasted or longest < _LONG_SECONDS:
            return False
        self._outlasted = True
        await asyncio.sleep(longest)
        return True

    async def heal(self, why: str) -> None:
        """Ends all faults for good, starts what they have killed, and waits until the cluster has settled."""
        if self.healed:
            return
        self.healed = True
        self.played.healed_because, self.played.healed_at = why, self._loop.time()
        self._progress(f"faults end: {why}")
        for task in self._timed:
            task.cancel()
        await asyncio.gather(*self._timed, return_exceptions=True)
        for fault in self.played.plan.faults:
            if not fault.in_component and fault.kind is not Kind.DRIVER:
                self._world.end(fault)
        self._site.processes.supervisor.start_all()
        async with self._healing("faults of components"):
            await self._clear()
        for fault in self.played.plan.faults:
            async with self._healing(f"fault {fault.name}"):
                await self._switch_back(fault)
        self.played.settled = await self._settle()

    async def _end_faults_of_the_scenario(self) -> None:
        """A step that failed may not have come to clear its faults: they are cleared here, and processes that
        they have killed are started, since nothing recovers while a component is down."""
        async with self._turn:
            async with self._healing("faults of the scenario"):
                await super().clear_faults(ALL)
            recorded = self._state_dir.load().processes.values()
            processes = self._site.processes
            for process in processes.take_left_down({each.pid for each in recorded if each.wanted}):
                async with self._healing(process.name):
                    processes.start_again(process)

    @asynccontextmanager
    async def _healing(self, what: str) -> AsyncIterator[None]:
        """An error is noted, and healing goes on."""
        try:
            yield
        except (ClusterError, UserError) as error:
            self.played.notes.append(f"healing {what}: {error}")

    async def _clear(self) -> None:
        if not self._set:
            return
        async with self._turn:
            names, self._set = self._set, []
            reports = await self._faults.clear(*names)
        planned = {fault.name for fault in self.played.plan.faults}
        fired = {report.fault.id: report.fired for report in reports if report.fault.id in planned}
        self.played.fired.update(fired)
        self.played.calls = {report.fault.component: dict(report.seen) for report in reports}

    async def _settle(self, least: float = 0.0) -> bool:
        """Waits for at least `least` virtual seconds; False if the cluster does not come to rest."""
        begin = changed = self._loop.time()
        writes = 0
        reader = await self._read()
        revision = await reader.revision()
        while (now := self._loop.time()) - changed < _QUIET_SECONDS or now - begin < least:
            if now - begin > max(_SETTLE_SECONDS, least) or writes > _SETTLE_WRITES:
                return False
            await asyncio.sleep(_STEP_SECONDS)
            written = await evidence(reader.events(revision))
            if count := sum(isinstance(entry, Write) and not is_heartbeat(entry) for entry in written):
                changed = self._loop.time()
                writes += count
            revision = await reader.revision()
        return True

    async def _judge(self) -> None:
        played = self.played
        played.settled = await self._settle()
        found = await self._violations(at_rest=played.settled)
        if played.settled and found and found != await self._violations(at_rest=False):
            played.settled = await self._settle(_ROUND_SECONDS)
            found = await self._violations(at_rest=played.settled)
        played.fired.update(self._world.fired)
        played.log = await self.log()
        played.violations = [*found, *await self._read_again(played.log)]
        played.points = (*self._world.points, *points_of(played.log, played.plan))

    async def _read_again(self, log: Sequence[Logged]) -> list[Violation]:
        """Restarts the API server and compares its reads, for some seeds only, at rest."""
        servers = self._state_dir.load().of_kind("apiserver")
        if not self.played.settled or self.played.plan.seed % _SEEDS_A_REREAD or not servers:
            return []
        client = self.client()
        try:
            async with self._turn:
                rereads = await read_differences(client, partial(super().restart, servers[0].name))
        finally:
            await client.close()
        if not rereads:
            return []
        judged = await judge(
            self._state_dir, self._platform, log, self.played.notes.append, at_rest=False, rereads=rereads
        )
        return [violation for violation in judged if violation.code == ReadsAlike.code]

    async def _violations(self, *, at_rest: bool) -> list[Violation]:
        log, note = await self.log(), self.played.notes.append
        tolerance = tolerance_of(self.played.plan)
        return await judge(self._state_dir, self._platform, log, note, at_rest=at_rest, tolerance=tolerance)


def _times_down(plan: Plan) -> dict[str, float | None]:
    """Seconds by fault until its victims are started again; None until all is healed."""
    killing = [fault for fault in plan.faults if fault.kind in (Kind.CRASH, Kind.KILL)]
    return {each.name: each.seconds("back") if "back" in each.parameters else None for each in killing}
