"""Keeps the condition Available of APIServices; each server finds out whether the servers behind them answer.

Source: k8s.io/kube-aggregator/pkg/controllers/status/remote/remote_available_controller.go, 1.36.
"""

import asyncio
import copy
import logging
from contextlib import suppress
from typing import NamedTuple

from kubeskew.apimachinery.conditions import new_condition, with_condition
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.metrics.series import QueueMeter, QueueMetrics
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.aggregation.registered import RESOURCE, AggregationServices, Remote
from kubeskew.apiserver.background import Wakeups
from kubeskew.apiserver.http.request import Handler, Request, parse_info
from kubeskew.apiserver.nodes.proxy import DialError
from kubeskew.apiserver.storage.encoding import dumps, loads
from kubeskew.apiserver.storage.interfaces import StorageError
from kubeskew.apiserver.storage.records import Key
from kubeskew.apiserver.unreadable import known_object
from kubeskew.apiserver.user import MASTERS_GROUP, SERVER, User
from kubeskew.apiserver.webhooks.endpoints import ResolutionError

log = logging.getLogger(__name__)

_EVERY_SECONDS = 30.0
_PROBE_SECONDS = 6.0
_MAX_LIST = 4 << 20  # bytes of a server's own discovery
_BEHIND = ("services", "endpoints", "endpointslices.discovery.k8s.io")
_PROBER = User("system:kube-aggregator", groups=(MASTERS_GROUP,))


class AvailableCondition(NamedTuple):
    status: str
    reason: str
    message: str


PASSED = AvailableCondition("True", "Passed", "all checks passed")
LOCAL = AvailableCondition("True", "Local", "Local APIServices are always available")


class Availability:
    """Checks when something changes, and every 30 s while there are remote APIServices."""

    def __init__(self, services: AggregationServices, dispatch: Handler, queues: QueueMetrics) -> None:
        self._services = services
        self._dispatch = dispatch
        self._wakeups = Wakeups(QueueMeter(queues, "RemoteAvailabilityController"))
        self._remote: set[str] = set()  # names of those that had a service when they were last looked at
        services.store.follow(RESOURCE, self._wakeups.changed)
        for resource in _BEHIND:
            services.store.follow(resource, self._wakeups.wake)

    async def run(self) -> None:
        """Never returns; errors of the store are logged, and the check is repeated."""
        while True:
            self._wakeups.begin()
            try:
                await self.check_all()
            except StorageError as error:
                log.warning("APIServices cannot be looked at: %s", error)
                self._wakeups.fail()
            await self._wakeups.wait(_EVERY_SECONDS if self._services.registered.get().remotes else None)

    async def check_all(self) -> None:
        """APIServices that have become local are set to Available too."""
        remotes = list(self._services.registered.get().remotes.values())
        before, self._remote = self._remote, {remote.name for remote in remotes}
        local = [self._note(name, LOCAL) for name in sorted(before - self._remote)]
        await asyncio.gather(*map(self._check, remotes), *local)

    async def _check(self, remote: Remote) -> None:
        await self._note(remote.name, self._find_service(remote) or await self._probe(remote))

    async def _note(self, name: str, finding: AvailableCondition) -> None:
        """Writes only a condition that differs; an APIService that is gone is passed over."""
        entry = self._services.store.get(Key(RESOURCE, "", name))
        obj = known_object(entry) if entry is not None else None
        if obj is None:
            return
        new = self._with_condition(obj, finding)
        if new == obj:
            return
        path = f"/apis/apiregistration.k8s.io/v1/apiservices/{name}/status"
        request = Request.of("PUT", path, {"user-agent": "kube-apiserver"}, dumps(new))
        request.info = parse_info("PUT", path, {})
        request.user = SERVER
        try:
            await self._dispatch(request)
        except StatusError as error:
            log.info("status of APIService %s not written: %s", name, error.message)
            self._wakeups.fail()

    def _find_service(self, remote: Remote) -> AvailableCondition | None:
        """None if nothing is wrong with the service; the server behind it is not called."""
        reference, resolver = remote.spec["service"], self._services.service_resolver
        name, namespace, port = reference["name"], reference["namespace"], reference.get("port") or 443
        named = f'service/{name} in "{namespace}"'
        if resolver.is_local(namespace, name):
            return None
        service = resolver.service(namespace, name)
        if service is None:
            return AvailableCondition("False", "ServiceNotFound", f"{named} is not present")
        spec = service.get("spec") or {}
        if (spec.get("type") or "ClusterIP") != "ClusterIP":
            return None
        found = next(
            (service_port for service_port in spec.get("ports") or () if service_port.get("port") == port),
            None,
        )
        if found is None:
            return AvailableCondition("False", "ServicePortError", f"{named} is not listening on port {port}")
        if not resolver.knows_endpoints(namespace, name):
            return AvailableCondition("False", "EndpointsNotFound", f"cannot find endpoints for {named}")
        port_name = found.get("name") or ""
        if not resolver.has_endpoints(namespace, name, port_name):
            message = f'endpoints for {named} have no addresses with port name "{port_name}"'
            return AvailableCondition("False", "MissingEndpoints", message)
        return None

    async def _probe(self, remote: Remote) -> AvailableCondition:
        """Asks the server for its resources, within 6 s; a good answer is kept for discovery."""
        from kubeskew.apiserver.aggregation.proxy_handler import ask  # only once there is a server to ask

        reference = remote.spec["service"]
        path = f"/apis/{remote.group}/{remote.version}" if remote.group else f"/api/{remote.version}"
        port = reference.get("port") or 443
        url = f"https://{reference['name']}.{reference['namespace']}.svc:{port}{path}"
        request = Request.of("GET", path)
        request.user = _PROBER
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                answer = await ask(self._services, remote, request)
                body = await answer.read(_MAX_LIST)
        except ResolutionError as error:
            return AvailableCondition("False", "FailedDiscoveryCheck", str(error))
        except TimeoutError:
            return AvailableCondition("False", "FailedDiscoveryCheck", f"timed out waiting for {url}")
        except (DialError, OSError) as error:
            why = "unexpected EOF" if isinstance(error, OSError) else error
            message = f'failing or missing response from {url}: Get "{url}": {why}'
            return AvailableCondition("False", "FailedDiscoveryCheck", message)
        if not 200 <= answer.status < 300:
            message = f"failing or missing response from {url}: bad status from {url}: {answer.status}"
            return AvailableCondition("False", "FailedDiscoveryCheck", message)
        self._learn(remote, body)
        return PASSED

    def _learn(self, remote: Remote, body: bytes) -> None:
        with suppress(ValueError):
            listed = loads(body)
            if isinstance(listed, dict) and listed.get("kind") == "APIResourceList":
                self._services.remote_lists[remote.group, remote.version] = listed

    def _with_condition(self, obj: Object, finding: AvailableCondition) -> Object:
        new = copy.deepcopy(obj)
        status = new.setdefault("status", {})
        now = self._services.environment.clock.now()
        condition = new_condition("Available", finding.status, finding.reason, finding.message, now)
        status["conditions"] = with_condition(status.get("conditions") or (), condition)
        return new
