"""Reads the usage of nodes and pods from the pages `/metrics/resource` of all kubelets.

Sources: metrics-server, pkg/scraper/scraper.go, pkg/scraper/client/resource/{client,decode}.go,
pkg/utils/address_resolver.go.
"""

import asyncio
import logging
import ssl
from collections.abc import Mapping, Sequence

import aiohttp
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from kubeskew.apimachinery.clock import Clock, Entropy
from kubeskew.apimachinery.conditions import is_condition_true
from kubeskew.apimachinery.objects import Object
from kubeskew.metricsserver.storage import Batch, PodName, Point

log = logging.getLogger(__name__)

_BILLION = 1_000_000_000
# Metric → the field of a point that it is for.
_OF_NODE = {"node_cpu_usage_seconds_total": "cpu", "node_memory_working_set_bytes": "memory"}
_OF_CONTAINER = {
    "container_cpu_usage_seconds_total": "cpu",
    "container_memory_working_set_bytes": "memory",
    "container_start_time_seconds": "started",
}
_PATH_ANNOTATION = "metrics.k8s.io/resource-metrics-path"
_PATH = "/metrics/resource"
_STAGGER_SECONDS, _STAGGER_SECONDS_MAX = 0.008, 4.0  # by node, so that not all are asked at once


class PageError(ValueError):
    """A page that is not in Prometheus' text format."""


def decoded(page: str, now: int, node: str) -> Batch:
    """Points without a time of their own are of `now`, in nanoseconds. Incomplete points are left out. Raises
    PageError."""
    of_node, pods = Point(), dict[PodName, dict[str, Point]]()
    for sample in _samples(page):
        if sample.name in _OF_NODE:
            of_node = _with(of_node, _OF_NODE[sample.name], sample, now)
        elif sample.name in _OF_CONTAINER:
            labels = sample.labels
            containers = pods.setdefault((labels.get("namespace", ""), labels.get("pod", "")), {})
            name = labels.get("container", "")
            field = _OF_CONTAINER[sample.name]
            containers[name] = _with(containers.get(name, Point()), field, sample, now)
    batch = Batch(pods={pod: points for pod, points in pods.items() if _is_complete(points)})
    if _is_whole(of_node):
        batch.nodes[node] = of_node
    else:
        log.info("Failed getting complete node metric of node %s", node)
    return batch


def _samples(page: str) -> list[Sample]:
    try:
        return [sample for family in text_string_to_metric_families(page) for sample in family.samples]
    except ValueError as error:
        raise PageError(f"failed parsing metrics: {error}") from error


def _with(point: Point, field: str, sample: Sample, now: int) -> Point:
    if field == "started":
        return point._replace(started=int(sample.value * _BILLION))
    at = now if sample.timestamp is None else round(float(sample.timestamp) * 1000) * 1_000_000
    if field == "cpu":
        return point._replace(cpu=int(sample.value * _BILLION), at=at)
    return point._replace(memory=int(sample.value), at=at)


def _is_whole(point: Point) -> bool:
    return bool(point.at and point.cpu and point.memory)


def _is_complete(containers: Mapping[str, Point]) -> bool:
    """False if a container of the pod lacks processor time or memory: then the whole pod is left out."""
    return all(point.cpu and point.memory for point in containers.values())


class ScrapeError(Exception):
    """The kubelet of a node could not be asked; the text has the reason."""


class Kubelets:
    """Asks kubelets over TLS, as the client of `tls`; each has `timeout` seconds to answer. `close` it."""

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
        """Merges the points of these nodes' kubelets; those that do not answer are logged."""
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
            if is_condition_true(node, "Ready"):
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
