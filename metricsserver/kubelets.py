"""Asks the kubelets of all nodes what their nodes and pods use.

Source: metrics-server, pkg/scraper/scraper.go, pkg/scraper/client/resource/client.go,
pkg/utils/address_resolver.go.
"""

import asyncio
import logging
import ssl
from collections.abc import Sequence

import aiohttp

from kubeskew.apimachinery.clock import Clock, Entropy
from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.objects import Object
from kubeskew.metricsserver.decoding import PageError, decoded
from kubeskew.metricsserver.points import Batch

log = logging.getLogger(__name__)

_PATH_ANNOTATION = "metrics.k8s.io/resource-metrics-path"
_PATH = "/metrics/resource"
_STAGGER_SECONDS, _STAGGER_SECONDS_MAX = 0.008, 4.0  # by node, so that not all are asked at once


class ScrapeError(Exception):
    """A node whose kubelet could not be asked; the text says why."""


class Kubelets:
    """Asks kubelets over TLS, as the client of `tls`; each has so many seconds to answer. `close` it."""

    def __init__(
        self,
        tls: ssl.SSLContext,
        address_types: Sequence[str],
        timeout: float,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self._tls = tls
        self._address_types = address_types
        self._timeout = timeout
        self._clock = clock
        self._entropy = entropy
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def scrape(self, nodes: Sequence[Object]) -> Batch:
        """Returns what the kubelets of these nodes tell; those that do not answer are logged."""
        stagger = min(len(nodes) * _STAGGER_SECONDS, _STAGGER_SECONDS_MAX)
        delays = [self._entropy.random() * stagger for _ in nodes]
        found = await asyncio.gather(*(self._one(*each) for each in zip(nodes, delays, strict=True)))
        whole = Batch()
        for batch in found:
            whole.nodes |= batch.nodes
            whole.pods |= {pod: points for pod, points in batch.pods.items() if pod not in whole.pods}
        return whole

    async def _one(self, node: Object, delay: float) -> Batch:
        await self._clock.sleep(delay)
        name = node["metadata"]["name"]
        try:
            return decoded(await self._page(node), int(self._clock.now().timestamp() * 1e9), name)
        except (ScrapeError, PageError, aiohttp.ClientError, OSError, TimeoutError) as error:
            if (find_condition(node, "Ready") or {}).get("status") == "True":
                log.error("Failed to scrape node %s: %s", name, error or "context deadline exceeded")
            else:
                log.debug("Failed to scrape node %s, node is not ready: %s", name, error)
            return Batch()

    async def _page(self, node: Object) -> str:
        url = f"https://{self._address(node)}{_path(node)}"
        if self._session is None:  # in the event loop that it is for
            limit = aiohttp.ClientTimeout(total=self._timeout)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=self._tls, limit=0), timeout=limit
            )
        async with self._session.get(url) as response:
            if response.status != 200:
                raise ScrapeError(f'request failed, status: "{response.status} {response.reason}"')
            return await response.text()

    def _address(self, node: Object) -> str:
        status = node.get("status") or {}
        port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port") or 10250
        known = {each["type"]: each["address"] for each in reversed(status.get("addresses") or ())}
        host = next((known[kind] for kind in self._address_types if kind in known), None)
        if host is None:
            raise ScrapeError(f"no address matched types [{' '.join(self._address_types)}]")
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _path(node: Object) -> str:
    annotations = node["metadata"].get("annotations") or {}
    path: str = annotations.get(_PATH_ANNOTATION) or _PATH
    return path
