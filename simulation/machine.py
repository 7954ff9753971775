"""The machine that processes of a simulation run on, with its ports and credentials.

Ports are given one after the other, and credentials are the same every time.
"""

import asyncio
import hashlib
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import click
from cryptography.hazmat.primitives.asymmetric import ec

from kubeskew.apimachinery.client.kubeconfig import Kubeconfig
from kubeskew.apimachinery.client.transport import Transport
from kubeskew.apimachinery.clock import Clock, Entropy, SeededEntropy, repeatable
from kubeskew.apimachinery.environment import LastWords
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.process.health_checks import Health
from kubeskew.apimachinery.process.runtime import level_of
from kubeskew.apiserver.http.request import Handler
from kubeskew.apiserver.storage.factory import MemoryStorage
from kubeskew.apiserver.storage.records import ComponentEvent
from kubeskew.cluster.creation import write_credentials
from kubeskew.cluster.state import State, StateDir
from kubeskew.simulation.network import APIListener, HealthListener, Network, dial_in
from kubeskew.simulation.processes import START, Process, SimulatedProcesses, write_log

if TYPE_CHECKING:
    from kubeskew.apiserver.machine import Listener

_FIRST_PORT = 16443
HOST = "simulation"


class CountedPorts:
    """`cluster.ports.Ports` that nobody else can have."""

    def __init__(self) -> None:
        self._next = _FIRST_PORT

    def choose(self, taken: Iterable[int]) -> int:
        used = set(taken)
        while self._next in used:
            self._next += 1
        self._next += 1
        return self._next - 1

    def keep(self, port: int) -> None:
        """Does nothing: nobody else chooses."""

    def is_free(self, port: int) -> bool:
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Does nothing: no port is held."""


class CountedKeys:
    """`cluster.pki.Keys` from a counter: they are of clusters that nobody can reach."""

    repeatable = True

    def __init__(self) -> None:
        self._drawn = 0

    def _draw(self) -> bytes:
        self._drawn += 1
        return hashlib.sha256(f"simulation {self._drawn}".encode()).digest()

    def key(self) -> ec.EllipticCurvePrivateKey:
        return ec.derive_private_key(int.from_bytes(self._draw()[:31], "big"), ec.SECP256R1())

    def serial(self) -> int:
        return int.from_bytes(self._draw()[:16], "big")

    def token(self) -> str:
        return self._draw().hex()


def write_repeatable_credentials(directory: StateDir, state: State, now: datetime) -> None:
    write_credentials(directory, state, now, CountedKeys())


class LoopClock:
    """The time of the event loop that it is first asked in, from a fixed start; `ahead` is its error in s."""

    def __init__(self) -> None:
        self.ahead = 0.0
        self._time: Callable[[], float] | None = None  # asyncio asks the kernel each time which loop runs
        self._seconds, self._now = 0.0, START  # when it was last asked

    def now(self) -> datetime:
        seconds = self.monotonic() + self.ahead
        if seconds != self._seconds:
            self._seconds, self._now = seconds, START + timedelta(seconds=seconds)
        return self._now

    def monotonic(self) -> float:
        if self._time is None:
            self._time = asyncio.get_running_loop().time
        return self._time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


class Streams:
    """Sources of randomness, each with a stream of numbers of its own, so that one more or less shifts no
    other."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._sources: list[tuple[str, SeededEntropy]] = []

    def entropy(self, name: str) -> Entropy:
        source = SeededEntropy(self._seed_of(name))
        self._sources.append((name, source))
        return source

    def go_on_with(self, seed: int) -> None:
        """All sources draw from another seed, existing ones too. The same seed changes nothing."""
        if seed == self.seed:
            return
        self.seed = seed
        for name, source in self._sources:
            source.restart(self._seed_of(name))

    def _seed_of(self, name: str) -> int:
        return repeatable(f"{self.seed} {name}").getrandbits(64)


class Site:
    """The common parts of the processes of one simulation."""

    def __init__(self, seed: int, *, servers: int = 1) -> None:
        self.clock: Clock = LoopClock()
        self.network = Network()
        self.dial = dial_in(self.network)
        self.storage = MemoryStorage(shared=servers > 1)
        self.streams = Streams(seed)
        self.processes = SimulatedProcesses(self.machine_of)
        self.clocks: defaultdict[str, LoopClock] = defaultdict(LoopClock)  # by the names of processes
        self._starts: Counter[str] = Counter()

    def machine_of(self, process: Process) -> "SimulatedMachine":
        self._starts[process.name] += 1
        return SimulatedMachine(self, process, f"{process.name} {self._starts[process.name]}")


def home_of(process: Process) -> Path:
    """The process' log lies in the state directory of its cluster."""
    return next(path.parent for path in process.log.parents if path.name == "logs")


class SimulatedMachine:
    """`apiserver.machine.ServerMachine` for one process."""

    name = HOST

    def __init__(self, site: Site, process: Process, stream: str) -> None:
        self._site = site
        self._process = process
        self._stream = stream
        self.clock: Clock = site.clocks[process.name]
        self.storage = site.storage

    def entropy(self) -> Entropy:
        return self._site.streams.entropy(self._stream)

    def log(self, verbosity: int) -> None:
        self._process.log_at(level_of(verbosity))

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        self._process.spawn(self._live(main), name=self._process.name)

    async def _live(self, main: Coroutine[Any, Any, None]) -> None:
        try:
            await main
        except click.ClickException as error:
            write_log(self._process, f"Error: {error.format_message()}")
        except Exception:
            write_log(self._process, traceback.format_exc())
        self._process.end()

    def settle(self) -> None:
        """Does nothing: others live in this interpreter."""

    def exit(self, code: int) -> None:
        self._process.end()

    def kill(self, fault: str) -> None:
        self._site.processes.kill(self._process, fault)

    def killed(self, fault: str, start: Callable[[], None]) -> None:
        supervisor, context = self._site.processes.supervisor, self._process.context
        if supervisor.takes(fault):
            loop = asyncio.get_running_loop()
            supervisor.killed(fault, lambda: loop.call_soon(start, context=context))

    def dial(self, config: Kubeconfig, max_requests: int) -> Transport:
        return self._site.dial(config, max_requests)

    def serve_health(self, health: Health, address: str, port: int) -> AbstractAsyncContextManager[int]:
        return HealthListener(self._site.network.healths, health, port)

    def last_words(self, kubeconfig: Path, agent: str, timeline_dir: Path | None) -> LastWords:
        return self._record

    def _record(self, announcements: Sequence[Object]) -> None:
        """Announcements need a server that runs; without one they are dropped."""
        home = home_of(self._process)
        servers = (listener.process for listener in self._site.network.servers.values())
        if not any(server is not None and home_of(server) == home for server in servers):
            return
        records = self._site.storage.records(StateDir(home).storage_url)
        for words in announcements:
            event = ComponentEvent(
                *(0, words["component"], words["what"], words["version"], words["gates"], self.clock.now()),
                words.get("detail", ""),
            )
            records.record(event)

    def listener(self, handler: Handler, clock: Clock) -> "Listener":
        return APIListener(self._site.network, handler, clock)
