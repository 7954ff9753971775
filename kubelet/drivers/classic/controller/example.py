"""The controller of the example driver: gives out a number of claims per node, or in the whole cluster.

Parameters are ConfigMaps: keys of the claim's become variables `user_KEY` of its containers, those of the
class `admin_KEY`. They travel in the claim's handle, `{"EnvVars": {…}, "NodeName": "…"}`, and in 1.31 in its
configuration. Behaviour of k8s.io/kubernetes/test/e2e/dra/test-driver/app/controller.go, 1.26 to 1.31.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from kubeskew.apimachinery.client.informer import InformerFactory
from kubeskew.apimachinery.client.refs import CONFIG_MAPS, dra_refs
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.clock import Entropy
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.drivers.classic.controller.controller import (
    ClaimAllocation,
    DriverController,
    DriverError,
)
from kubeskew.kubelet.drivers.classic.controller.features import LibraryFeatures
from kubeskew.kubelet.drivers.generation import ControllerParts
from kubeskew.kubelet.drivers.settings import ControllerSettings

log = logging.getLogger(__name__)


class ExampleDriver:
    """Implements `Driver`. `capacity` returns how many claims each node takes, by node."""

    def __init__(
        self,
        client: APIClient,
        entropy: Entropy,
        version: Version,
        name: str,
        settings: ControllerSettings,
        capacity: Callable[[], Mapping[str, int]],
    ) -> None:
        self._client = client
        self._entropy = entropy
        self._features = LibraryFeatures.of(FeatureGates(version))
        self._name = name
        self._settings = settings
        self._capacity = capacity
        self._lock = asyncio.Lock()
        self._allocated: dict[str, str] = {}  # claim uid → its node; empty if it is on the network

    def learn(self, claim: Object) -> None:
        """Takes over what an earlier process allocated."""
        result = (claim.get("status") or {}).get("allocation")
        uid = claim["metadata"]["uid"]
        if result is None or uid in self._allocated:
            return
        owner = result.get("controller") or claim["status"].get("driverName")
        if owner == self._name:
            self._allocated[uid] = _node_of(result)

    # -- Driver

    async def class_parameters(self, resource_class: Object) -> Any:
        reference = resource_class.get("parametersRef")
        if reference is None:
            return {}
        return await self._config_map(reference, reference.get("namespace") or "default", "admin")

    async def claim_parameters(self, claim: Object, resource_class: Object, class_parameters: Any) -> Any:
        reference = claim["spec"].get("parametersRef")
        if reference is None:
            return {}
        return await self._config_map(reference, claim["metadata"]["namespace"], "user")

    async def allocate(self, claims: Sequence[ClaimAllocation], node: str) -> None:
        async with self._lock:
            for claim in claims:
                try:
                    claim.allocation = self._allocate(claim, node)
                except DriverError as error:
                    uid = claim.claim["metadata"]["uid"]
                    claim.error = f"failed allocating claim {uid}: {error}"

    async def deallocate(self, claim: Object) -> None:
        """Frees the devices of the claim; a claim that has none is no error."""
        self._allocated.pop(claim["metadata"]["uid"], None)

    async def unsuitable_nodes(
        self, pod: Object, claims: Sequence[ClaimAllocation], nodes: Sequence[str]
    ) -> None:
        """Marks, for each claim of the pod, the nodes that have no room for all of its claims together."""
        capacity = self._capacity()
        new = sum(claim.claim["metadata"]["uid"] not in self._allocated for claim in claims)
        lacking = [
            node
            for node in nodes
            if node not in capacity or self._used(node) + new > self._room(capacity, node)
        ]
        for claim in claims:
            claim.unsuitable_nodes = list(lacking)

    # --

    def _room(self, capacity: Mapping[str, int], node: str) -> int:
        return capacity[node] if self._settings.node_local else sum(capacity.values())

    def _used(self, node: str) -> int:
        return sum(not self._settings.node_local or other == node for other in self._allocated.values())

    def _allocate(self, claim: ClaimAllocation, node: str) -> Object:
        uid, capacity = claim.claim["metadata"]["uid"], self._capacity()
        if uid not in self._allocated:
            self._allocated[uid] = self._chosen(node, capacity)
        chosen = self._allocated[uid]
        nodes = [chosen] if self._settings.node_local else sorted(capacity)
        variables = {
            **{f"user_{key.lower()}": value for key, value in (claim.claim_parameters or {}).items()},
            **{f"admin_{key.lower()}": value for key, value in (claim.class_parameters or {}).items()},
        }
        return self._result(claim.claim, chosen, nodes, variables)

    def _chosen(self, node: str, capacity: Mapping[str, int]) -> str:
        if not self._settings.node_local:
            if self._used("") >= sum(capacity.values()):
                raise DriverError("resources exhausted in the cluster")
            return ""
        if node:
            if self._used(node) >= capacity.get(node, 0):
                raise DriverError(f'resources exhausted on node "{node}"')
            return node
        free = [name for name in sorted(capacity) if self._used(name) < capacity[name]]
        if not free:
            raise DriverError("resources exhausted on all nodes")
        return free[int(self._entropy.random() * len(free))]

    def _result(self, claim: Object, node: str, nodes: Sequence[str], variables: Mapping[str, str]) -> Object:
        expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [*nodes]}
        selector = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        if self._features.allocates_devices:
            return self._devices(claim, node, selector, variables)
        data = orjson.dumps({"EnvVars": dict(variables), "NodeName": node}).decode()
        result: Object = {"availableOnNodes": selector}
        if self._settings.shareable:
            result["shareable"] = True
        if self._features.single_handle:
            result["resourceHandle"] = data
        else:
            result["resourceHandles"] = [{"driverName": self._name, "data": data}]
        return result

    def _devices(self, claim: Object, node: str, selector: Object, variables: Mapping[str, str]) -> Object:
        """In 1.31 each request gets a device that the driver names itself, and that is in no slice."""
        requests = (claim["spec"].get("devices") or {}).get("requests") or ()
        pool, device = node or "network", f"claim-{claim['metadata']['uid'][:8]}"
        results = [
            {"request": request["name"], "driver": self._name, "pool": pool, "device": device}
            for request in requests
        ]
        devices: Object = {"results": results}
        if variables:
            parameters = {key.partition("_")[2]: value for key, value in variables.items()}
            opaque = {"driver": self._name, "parameters": parameters}
            devices["config"] = [{"source": "FromClaim", "opaque": opaque}]
        return {"devices": devices, "nodeSelector": selector}

    async def _config_map(self, reference: Object, namespace: str, kind: str) -> Mapping[str, str]:
        if (reference.get("apiGroup") or "", reference["kind"]) != ("", "ConfigMap"):
            said = f"{reference.get('apiGroup') or ''}/{reference['kind']}"
            raise DriverError(
                f"claim parameters are only supported in APIVersion v1, Kind ConfigMap, got: {said}"
            )
        try:
            found = await self._client.get(CONFIG_MAPS, reference["name"], namespace)
        except (StatusError, *CONNECTION_ERRORS) as error:
            raise DriverError(f"get {kind} config map: {error}") from error
        return found.get("data") or {}


def _node_of(result: Object) -> str:
    """An empty name means that the claim is on the network, not on a node."""
    handles = result.get("resourceHandles") or ()
    data = result.get("resourceHandle") or (handles[0].get("data") if handles else None)
    if data:
        return str(orjson.loads(data).get("NodeName") or "")
    results = (result.get("devices") or {}).get("results") or ()
    pool = results[0]["pool"] if results else "network"
    return "" if pool == "network" else str(pool)


async def run_controller(parts: ControllerParts) -> None:
    """Works until cancelled."""
    ctx, name = parts.ctx, parts.driver
    version, environment = ctx.options.emulated_version, ctx.environment
    informers = InformerFactory(ctx.client, environment.clock, environment.entropy)
    driver = ExampleDriver(ctx.client, environment.entropy, version, name, parts.settings, parts.capacity)
    claims = informers.informer(dra_refs(version).claims)
    claims.add_handler(driver.learn, lambda _, claim: driver.learn(claim))
    controller = DriverController(ctx.client, environment.clock, informers, version, name, driver)
    log.info("allocating claims")
    await controller.run(asyncio.Event())
