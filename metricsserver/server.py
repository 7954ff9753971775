"""Runs the metrics server: follows nodes and pods, asks the kubelets periodically, serves their answers.

Source: metrics-server, pkg/server/server.go.
"""

import asyncio
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import Histogram

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.kubeconfig import load_kubeconfig
from kubeskew.apimachinery.client.refs import NODES, PODS
from kubeskew.apimachinery.client.reviews import FAILURES
from kubeskew.apimachinery.process.component import ComponentContext
from kubeskew.metricsserver.access import Access, Trust, read_trust
from kubeskew.metricsserver.handlers import Answers, Listener
from kubeskew.metricsserver.scraper import Kubelets
from kubeskew.metricsserver.storage import Storage

log = logging.getLogger(__name__)

_RETRY_SECONDS = 0.2
_LATE = 1.5  # times the resolution, after which a round is taken for stuck


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The flags of the metrics server. Times are seconds."""

    address: str
    certificate: Path
    key: Path
    resolution: float
    kubelet_timeout: float
    address_types: Sequence[str]


class MetricsServer:
    def __init__(self, ctx: ComponentContext, settings: ServerSettings) -> None:
        self._ctx = ctx
        self._settings = settings
        environment, clock = ctx.environment, ctx.environment.clock
        self._nodes = Informer(ctx.client, NODES, clock, entropy=environment.entropy, trimmed=True)
        self._pods = Informer(
            *(ctx.client, PODS, clock, "", "status.phase=Running"),
            entropy=environment.entropy,
            metadata_only=True,
        )
        self._storage = Storage(settings.resolution)
        tls = load_kubeconfig(ctx.options.kubeconfig).ssl_context()
        if tls is None:
            raise ValueError("the API server of the kubeconfig does not speak TLS, nor would kubelets")
        self._kubelets = Kubelets(
            tls, settings.address_types, settings.kubelet_timeout, clock, environment.entropy
        )
        self._ticked_at = -math.inf  # when the question that is under way, or was last, began
        self._listening = False
        self._seconds = Histogram(
            "metrics_server_manager_tick_duration_seconds",
            "The total time spent collecting and storing metrics in seconds.",
            registry=ctx.health.registry,
        )

    async def run(self) -> None:
        self._ctx.health.add_check("informers", self._synced)
        self._ctx.health.add_check("server", lambda: self._listening or "not listening yet")
        working = asyncio.create_task(self._work(), name="metrics server")
        stopping = asyncio.create_task(self._ctx.stop.wait())
        try:
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()
        finally:
            for task in (working, stopping):
                task.cancel()
            await asyncio.gather(working, stopping, return_exceptions=True)

    async def _work(self) -> None:
        for informer in (self._nodes, self._pods):
            informer.start()
        access = Access(await self._trust(), self._ctx.client, self._ctx.environment.clock)
        clock, registry = self._ctx.environment.clock, self._ctx.health.registry
        checks = {"/healthz": self._alive, "/livez": self._alive, "/readyz": self._ready}
        answers = Answers(self._storage, self._nodes, self._pods, clock, checks, registry)
        listener = Listener(answers, access)
        try:
            await self._nodes.synced()
            await self._pods.synced()
            scraping = asyncio.create_task(self._scrape(), name="scraping")
            context = access.context(str(self._settings.certificate), str(self._settings.key))
            address = self._settings.address
            port = await listener.start(address, self._ctx.options.secure_port, context)
            log.info("serving metrics.k8s.io on https://%s:%d", address, port)
            self._listening = True
            await scraping
        finally:
            self._listening = False
            await listener.stop()
            await self._kubelets.close()
            await asyncio.gather(self._nodes.stop(), self._pods.stop())

    async def _trust(self) -> Trust:
        """Tries again until the API server answers with its ConfigMap."""
        while True:
            try:
                return await read_trust(self._ctx.client)
            except (*FAILURES, ValueError) as error:
                log.debug("whom to trust is not known yet: %s", error)
                await self._ctx.environment.clock.sleep(_RETRY_SECONDS)

    async def _scrape(self) -> None:
        """Asks all kubelets periodically; a round that takes too long replaces the next ones."""
        clock, resolution = self._ctx.environment.clock, self._settings.resolution
        began = clock.monotonic()
        while True:
            self._ticked_at = clock.monotonic()
            self._storage.store(await self._kubelets.scrape(self._nodes.list()))
            now = clock.monotonic()
            self._seconds.observe(now - self._ticked_at)
            await clock.sleep(resolution - (now - began) % resolution)

    # -- health

    def _synced(self) -> bool | str:
        waiting = [str(each.ref) for each in (self._nodes, self._pods) if not each.has_synced]
        return f"waiting for: {', '.join(waiting)}" if waiting else True

    def _alive(self) -> dict[str, bool]:
        late = self._ctx.environment.clock.monotonic() - self._ticked_at
        return {"ping": True, "metric-collection-timely": late <= _LATE * self._settings.resolution}

    def _ready(self) -> dict[str, bool]:
        synced = self._synced() is True
        return {"ping": True, "metric-storage-ready": self._storage.ready, "metric-informer-sync": synced}
