"""The base of every controller: a queue of keys, and workers that reconcile one key at a time. What the
garbage collector watches is shared with controllers that need all objects of any resource.

A controller reads from informers, whose objects it must not change, and writes through the client.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from prometheus_client import CollectorRegistry

from kubeskew.apimachinery.client.informer import Informer, InformerFactory
from kubeskew.apimachinery.client.recorder import EventRecorder
from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.client.workqueue import WorkQueue
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.errors import StatusError, is_reason
from kubeskew.apimachinery.metrics.series import QueueMeter, QueueMetrics
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.process.runtime import Panic, raised

log = logging.getLogger(__name__)


class Monitors:
    """The informers of the garbage collector, by resource; each holds at least the objects' metadata.

    It is upstream's graph builder as others see it (pkg/controller/garbagecollector/graph_builder.go,
    GetMonitor). Without a garbage collector it stays empty.
    """

    def __init__(self) -> None:
        self._informers: dict[Ref, Informer] = {}

    def __contains__(self, ref: Ref) -> bool:
        return ref in self._informers

    def __iter__(self) -> Iterator[Ref]:
        return iter(self._informers)

    def add(self, ref: Ref, informer: Informer) -> None:
        self._informers[ref] = informer

    def remove(self, ref: Ref) -> None:
        self._informers.pop(ref, None)

    def get(self, ref: Ref) -> Informer | None:
        return self._informers.get(ref)


class SyncError(Exception):
    """An object cannot be reconciled for a reason that its user has to know; the key is tried again later."""


class Key(NamedTuple):
    """Identifies the object to reconcile; the namespace is empty for cluster-scoped ones."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def key_of(obj: Object) -> Key:
    return Key(obj["metadata"].get("namespace") or "", obj["metadata"]["name"])


@dataclass(frozen=True, slots=True)
class ControllerContext:
    environment: Environment
    client: APIClient
    informers: InformerFactory
    used: list[Informer] = field(default_factory=list)  # by the one controller with this context
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    queues: QueueMetrics | None = None
    monitors: Monitors = field(default_factory=Monitors)  # the garbage collector's
    root_ca: str = ""  # PEM, published in every namespace
    authority: tuple[bytes, bytes] | None = None  # certificate and key that sign certificates, PEM
    account_key: bytes = b""  # that signs tokens in secrets, PEM
    workers: dict[str, int] = field(default_factory=dict)  # by controller name
    panic: Callable[[Panic], None] = raised

    def informer(self, ref: Ref, namespace: str = "", field_selector: str = "") -> Informer:
        found = self.informers.informer(ref, namespace, field_selector)
        self.used.append(found)
        return found

    def recorder(self, component: str) -> EventRecorder:
        return EventRecorder(self.client, self.environment.clock, component)


class Controller(ABC):
    """One control loop. Subclasses subscribe to informers in `__init__` and reconcile in `sync`."""

    name: ClassVar[str]  # upstream's, as in --controllers
    component: ClassVar[str]  # the source of its events
    # of its queue in metrics, None if upstream's has none; else its own less `-controller`, in underscores
    queue_name: str | None = ""
    default_workers: ClassVar[int] = 5

    def __init__(self, context: ControllerContext) -> None:
        self.environment = context.environment
        self.client = context.client
        self.clock = context.environment.clock
        queue, meter = self.queue_name, None
        if context.queues is not None and queue is not None:
            name = queue or self.name.removesuffix("-controller").replace("-", "_")
            meter = QueueMeter(context.queues, name)
        self.queue: WorkQueue[Any] = WorkQueue(
            self.clock, max_delay=self.environment.periods.work_queue_longest, meter=meter
        )
        self.recorder = context.recorder(self.component)
        self._panic = context.panic
        self._workers = context.workers.get(self.name, self.default_workers)
        self._informers = context.used
        self._tasks: list[asyncio.Task[None]] = []
        self._working = False

    @abstractmethod
    async def sync(self, key: Any) -> None:
        """Reconciles the object of `key`. Failures are raised, and retried."""

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        """They run next to the workers until they are cancelled."""
        return []

    @property
    def ready(self) -> bool:
        """True also while the controller waits for a resource that the server does not have, as upstream."""
        return self._working or any(informer.is_unserved for informer in self._informers)

    def enqueue(self, obj: Object) -> None:
        self.queue.add(key_of(obj))

    def start(self) -> None:
        """Work begins as soon as the informers are synced."""
        self._tasks = [asyncio.create_task(self._begin(), name=self.name)]

    async def _begin(self) -> None:
        for informer in self._informers:
            await informer.synced()
        loops = [self.queue.work(self._sync_one, self._workers), *self.loops()]
        self._tasks += [asyncio.create_task(loop, name=self.name) for loop in loops]
        self._working = True

    async def stop(self) -> None:
        """Unfinished work is continued by the next start."""
        self.queue.shut_down()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.recorder.close()

    async def _sync_one(self, key: Any) -> None:
        try:
            await self.sync(key)
        except CONNECTION_ERRORS as error:
            log.debug("%s: %s: %s", self.name, key, error)
            periods = self.environment.periods
            if periods.work_queue_unanswered < periods.work_queue_longest:
                self.queue.add_after(key, periods.work_queue_unanswered)
            else:
                self.queue.add_rate_limited(key)
        except (StatusError, SyncError) as error:
            # Conflicts are normal: the informer was behind.
            level = logging.DEBUG if is_reason(error, "Conflict") else logging.INFO
            log.log(level, "%s: error syncing %s: %s", self.name, key, error)
            self.queue.add_rate_limited(key)
        except Panic as panic:
            self._panic(panic)
        except Exception:
            log.exception("%s: error syncing %s", self.name, key)
            self.queue.add_rate_limited(key)
        else:
            self.queue.forget(key)
