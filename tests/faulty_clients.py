"""A client with faults in front of a server in memory, for tests of both."""

from typing import Any

from fake_server import FakeServer

from kubeskew.apimachinery.client.faults import FaultyTransport
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.faults.decisions import Progress
from kubeskew.apimachinery.faults.fault import Fault
from kubeskew.apimachinery.faults.injector import Injector
from kubeskew.apimachinery.faults.syntax import read


class Notes:
    """Keeps what an injector notes, records and dies of."""

    def __init__(self) -> None:
        self.noted: list[tuple[str, int, int]] = []
        self.recorded: list[str] = []
        self.crashes: list[str] = []

    def note(self, fault: Any, progress: Progress) -> None:
        self.noted.append((fault.id, progress.matched, progress.fired))

    def record(self, what: str, detail: str) -> None:
        self.recorded.append(f"{what}: {detail}")

    async def crash(self, _fault: Fault, detail: str) -> None:
        self.crashes.append(detail)


class FaultyClient:
    """The scheduler's client of `server`; `set` gives it faults."""

    def __init__(self, server: FakeServer, clock: Clock, transport: Any = None) -> None:
        self.notes = Notes()
        self.injector = Injector("scheduler", clock, self.notes, self.notes.crash, self.notes.record)
        self.client = APIClient(FaultyTransport(transport or server, self.injector), clock=clock)

    def set(self, *bodies: dict[str, Any]) -> None:
        """Have these faults, and no others; their counters begin again."""
        faults = [
            read({"component": "scheduler", "id": f"f{at}", **body}) for at, body in enumerate(bodies, 1)
        ]
        self.injector.apply([(fault, Progress()) for fault in faults])
