"""Plays faults that only a simulation can have: of messages, order, clocks and processes."""

from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

from kubeskew.apimachinery.clock import repeatable
from kubeskew.apimachinery.faults.decisions import draw
from kubeskew.apimachinery.faults.injector import CRASHED
from kubeskew.apimachinery.known_names import kind_of, meant
from kubeskew.apiserver.storage.records import ComponentEvent
from kubeskew.cluster.state import Process as RecordedProcess
from kubeskew.cluster.state import StateDir
from kubeskew.simulation.faults.plan import Fault, Latency, read_jump, read_latency
from kubeskew.simulation.loop import SimulatedLoop, process_of
from kubeskew.simulation.machine import Site
from kubeskew.simulation.processes import Process


class World:
    """Begins and ends faults of the simulation, and counts how often each fired."""

    def __init__(self, seed: int, loop: SimulatedLoop, site: Site, directory: StateDir) -> None:
        self._seed = seed
        self._loop = loop
        self._site = site
        self._directory = directory
        self._latencies: dict[str, tuple[Sequence[str], Latency]] = {}  # by fault: whose messages
        self._messages: Counter[str] = Counter()
        self._jumps: dict[str, tuple[Sequence[str], float]] = {}  # by fault: the processes, and how far
        self.fired: Counter[str] = Counter()
        self.points: dict[str, None] = {}  # points that were reached

    def begin(self, fault: Fault) -> None:
        """A fault of a component that does not run has no effect."""
        found = self._processes(fault.target)
        names = [process.name for process, _, _ in found]
        match fault.effect:
            case "latency" if names or not fault.target:
                self._latencies[fault.name] = names, read_latency(fault.parameters["latency"])
                self._site.network.latency = self._latency
            case "order":
                self._loop.reorder = _Order(self._seed, fault.name, self.fired)
            case "clockJump" if names:
                self._jumps[fault.name] = names, read_jump(fault.parameters["clockJump"])
                self._set_clocks()
                self.fired[fault.name] += 1
            case "kill":
                for process, component, record in found:
                    self._kill(fault, process, component, record)

    def end(self, fault: Fault) -> None:
        match fault.effect:
            case "latency":
                self._latencies.pop(fault.name, None)
                if not self._latencies:
                    self._site.network.latency = None
            case "order":
                self._loop.reorder = None
            case "clockJump":
                self._jumps.pop(fault.name, None)
                self._set_clocks()

    def _processes(self, target: str) -> list[tuple[Process, str, RecordedProcess]]:
        components = self._directory.load().components()
        found: dict[int, tuple[Process, str, RecordedProcess]] = {}
        for component in meant(target, components):
            record = components[component]
            process = self._site.processes.running(record.pid)
            if process is not None:
                found.setdefault(process.pid, (process, component, record))
        return [*found.values()]

    def _latency(self, client: str, subject: str) -> float:
        """Seconds of a message to or from a client: the n-th of a subject takes as long whichever others are
        sent."""
        seconds = 0.0
        for fault, (processes, latency) in self._latencies.items():
            if not processes or client in processes:
                stream = f"{fault} {client} {subject}"
                self._messages[stream] += 1
                seconds += latency.of(draw(self._seed, stream, self._messages[stream], "latency"))
                self.fired[fault] += 1
        return seconds

    def _set_clocks(self) -> None:
        for name, clock in self._site.clocks.items():
            clock.ahead = sum(seconds for names, seconds in self._jumps.values() if name in names)

    def _kill(self, fault: Fault, process: Process, component: str, record: RecordedProcess) -> None:
        self.fired[fault.name] += 1
        self.points[f"kill: {kind_of(component)}"] = None
        self._site.storage.only().record(
            ComponentEvent(
                *(0, component, CRASHED, record.version, record.feature_gates.flag()),
                *(self._site.clock.now(), f"{fault.name}: killed"),
            )
        )
        self._site.processes.kill(process, fault.name)


class _Order:
    """Draws which process runs next of those that could; each process keeps the order of its own callbacks.

    Independent machines may run in any such order: no finding is due to an event loop that no machine has.
    """

    def __init__(self, seed: int, name: str, fired: Counter[str]) -> None:
        self._random = repeatable(f"{seed} {name}")
        self._name = name
        self._fired = fired

    def __call__(self, ready: list[Any]) -> list[Any]:
        queues: dict[Process | None, deque[Any]] = {}
        for handle in ready:
            queues.setdefault(process_of(handle), deque()).append(handle)
        if len(queues) == 1:
            return ready
        self._fired[self._name] += 1
        turns: Sequence[deque[Any]] = [queue for queue in queues.values() for _ in queue]
        return [queue.popleft() for queue in self._random.sample(turns, len(turns))]
