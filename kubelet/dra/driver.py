"""The example driver: a DRA driver in the kubelet's process, with made-up devices.

It has `devices` plain devices `NAME-0 …` and prepares whatever the scheduler allocated of them. Each
request of a claim becomes one CDI device `DRIVER/claim=CLAIM_UID-REQUEST`; the containers that use the
request find in their environment

    <request>=true                      e.g. container_0_request_0=true, as upstream's test driver gives
    <driver>_<request>=<device>,…       e.g. gpu_example_com_container_0_request_0=gpu-0
    user_<key>=<value>                  from opaque configuration in the claim for this driver
    admin_<key>=<value>                 the same, from the device class

where characters that a variable's name cannot have are `_`. What is prepared is kept in `prepared.json`,
for a claim must come back with the same devices after a restart, and be unprepared by a driver that did
not prepare it.
"""

import hashlib
import re
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from apimachinery.client.refs import Ref
from apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from apimachinery.errors import StatusError
from kubelet.cdi.writing import write_spec
from kubelet.dra.plugin import ClaimFailed, ClaimRef, PreparedDevice
from kubelet.files import read_kept, write_atomically
from kubelet.node_config import DriverConfig

Object = dict[str, Any]

_DEFAULT_CAPACITY = {"memory": "80Gi"}


class ExampleDriver:
    """Implements `DRAPlugin`."""

    connected = True  # it is in this process

    def __init__(
        self,
        config: DriverConfig,
        node_name: str,
        directory: Path,
        cdi_directory: Path,
        client: APIClient,
        claims: Ref,
    ) -> None:
        self._config = config
        self._node_name = node_name
        self._path = directory / "prepared.json"
        self._cdi_directory = cdi_directory
        self._client = client
        self._claims = claims
        self._prepared: dict[str, Object] = _load(self._path)  # claim UID → claim and devices

    @property
    def driver(self) -> str:
        return self._config.name

    def devices(self) -> list[Object]:
        """What to publish, in the shape of resource.k8s.io/v1."""
        return [self._device(index) for index in range(self._config.devices)]

    def prepared(self) -> list[Object]:
        """The claims that are prepared now."""
        return [dict(entry) for entry in self._prepared.values()]

    # -- DRAPlugin

    async def node_prepare_resources(
        self, claims: Sequence[ClaimRef]
    ) -> Mapping[str, Sequence[PreparedDevice] | ClaimFailed]:
        return {claim.uid: await self._prepare(claim) for claim in claims}

    async def node_unprepare_resources(self, claims: Sequence[ClaimRef]) -> Mapping[str, ClaimFailed | None]:
        for claim in claims:
            self._cdi_path(claim.uid).unlink(missing_ok=True)
            self._prepared.pop(claim.uid, None)
        self._save()
        return dict.fromkeys(claim.uid for claim in claims)

    # --

    async def _prepare(self, claim: ClaimRef) -> Sequence[PreparedDevice] | ClaimFailed:
        known = self._prepared.get(claim.uid)
        if known is not None and self._cdi_path(claim.uid).exists():
            return [_from_stored(device) for device in known["devices"]]
        try:
            found = await self._client.get(self._claims, claim.name, claim.namespace)
        except (StatusError, *CONNECTION_ERRORS) as error:
            return ClaimFailed(f"retrieve claim {claim.namespace}/{claim.name}: {error}")
        if found["metadata"]["uid"] != claim.uid:
            return ClaimFailed(f"claim {claim.namespace}/{claim.name} got replaced")
        allocation = (found.get("status") or {}).get("allocation")
        if not allocation:
            return ClaimFailed(f"claim {claim.namespace}/{claim.name} not allocated")
        results = [r for r in allocation["devices"]["results"] if r["driver"] == self.driver]
        prepared = [self._prepared_device(claim, result) for result in results]
        write_spec(self._cdi_path(claim.uid), self._kind, self._cdi_devices(claim, allocation, results))
        stored = [_stored(device) for device in prepared]
        self._prepared[claim.uid] = {**claim._asdict(), "devices": stored}
        self._save()
        return prepared

    def _prepared_device(self, claim: ClaimRef, result: Object) -> PreparedDevice:
        request = _base_request(result)
        cdi_id = f"{self._kind}={_cdi_name(claim, request)}"
        share_id = result.get("shareID") or ""
        return PreparedDevice(result["pool"], result["device"], (request,), (cdi_id,), share_id)

    def _cdi_devices(
        self, claim: ClaimRef, allocation: Object, results: Sequence[Object]
    ) -> dict[str, dict[str, str]]:
        """CDI device name → environment, one per request."""
        found: dict[str, dict[str, str]] = {}
        for request in dict.fromkeys(_base_request(result) for result in results):
            names = [result["device"] for result in results if _base_request(result) == request]
            found[_cdi_name(claim, request)] = {
                _variable(request): "true",
                f"{_variable(self.driver)}_{_variable(request)}": ",".join(names),
                **self._configured(allocation, request),
            }
        return found

    def _configured(self, allocation: Object, request: str) -> dict[str, str]:
        """Opaque parameters for this driver and request, as variables."""
        found: dict[str, str] = {}
        for entry in allocation["devices"].get("config") or []:
            opaque = entry.get("opaque") or {}
            named = [name.split("/")[0] for name in entry.get("requests") or []]
            if opaque.get("driver") != self.driver or (named and request not in named):
                continue
            prefix = "admin" if entry.get("source") == "FromClass" else "user"
            parameters = opaque.get("parameters") or {}
            found |= {f"{prefix}_{_variable(str(key))}": str(value) for key, value in parameters.items()}
        return found

    @property
    def _kind(self) -> str:
        return f"{self.driver}/claim"

    def _cdi_path(self, claim_uid: str) -> Path:
        return self._cdi_directory / f"{self.driver}-{claim_uid}.json"

    def _save(self) -> None:
        write_atomically(self._path, orjson.dumps(self._prepared, option=orjson.OPT_INDENT_2))

    def _device(self, index: int) -> Object:
        name = f"{self._config.device_name}-{index}"
        default = {
            "type": {"string": "gpu"},
            "index": {"int": index},
            "uuid": {"string": f"gpu-{_uuid(self._node_name, self.driver, name)}"},
            "model": {"string": "LATEST-GPU-MODEL"},
            "driverVersion": {"version": "1.0.0"},
        }
        given = {key: _attribute(value) for key, value in self._config.attributes.items()}
        capacity = {**_DEFAULT_CAPACITY, **self._config.capacity}
        return {
            "name": name,
            "attributes": {key: value for key, value in {**default, **given}.items() if value is not None},
            "capacity": {key: {"value": amount} for key, amount in capacity.items()},
        }


def _attribute(value: Any) -> Object | None:
    """A plain value as the API writes it; a dict is taken as it is, null takes the attribute away."""
    if value is None or isinstance(value, dict):
        return value
    if isinstance(value, bool):
        return {"bool": value}
    return {"int": value} if isinstance(value, int) else {"string": str(value)}


def _uuid(*parts: str) -> uuid.UUID:
    """Always the same for the same device."""
    return uuid.UUID(bytes=hashlib.sha256("/".join(parts).encode()).digest()[:16], version=4)


def _base_request(result: Object) -> str:
    """The request without its subrequest: containers name requests only."""
    request: str = result["request"]
    return request.split("/")[0]


def _cdi_name(claim: ClaimRef, request: str) -> str:
    return f"{claim.uid}-{request}"


def _variable(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", text)


def _load(path: Path) -> dict[str, Object]:
    prepared: dict[str, Object] = orjson.loads(read_kept(path) or b"{}")
    return prepared


def _stored(device: PreparedDevice) -> Object:
    return {
        "pool": device.pool,
        "device": device.device,
        "requests": list(device.requests),
        "cdiIDs": list(device.cdi_ids),
        "shareID": device.share_id,
    }


def _from_stored(entry: Object) -> PreparedDevice:
    return PreparedDevice(
        pool=entry["pool"],
        device=entry["device"],
        requests=tuple(entry["requests"]),
        cdi_ids=tuple(entry["cdiIDs"]),
        share_id=entry["shareID"],
    )
