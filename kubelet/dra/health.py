"""Follows the health streams of drivers, keeps the health of each device, and writes it into pods' statuses.

A device that a driver does not report again in time is Unknown, and so are all devices of a driver whose
stream ended.

Sources: pkg/kubelet/cm/dra/healthinfo.go and manager.go (HandleWatchResourcesStream,
UpdateAllocatedResourcesStatus), 1.36.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from kubeskew.apimachinery.clock import Clock, micro_timestamp, parse_timestamp
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.device_managers import DeviceError
from kubeskew.kubelet.dra.claims import ClaimCache, ClaimInfo, pod_claims
from kubeskew.kubelet.dra.grpc_versions import HealthFeatures
from kubeskew.kubelet.files import UNJOURNALLED, StateFiles

if TYPE_CHECKING:
    from kubeskew.kubelet.protocols.message_sockets import Channel

log = logging.getLogger(__name__)

FILE_NAME = "dra_health_state"
UNKNOWN = "Unknown"
_STATES = (UNKNOWN, "Healthy", "Unhealthy")  # health by number
_DEFAULT_SECONDS = 30.0
_RETRY_SECONDS = 5.0
_LONGEST_MESSAGE = 1024
_NANOSECONDS = 1e9  # a second in Go's durations


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """The last report about a device, `seen` by the monotonic clock; it is valid for `timeout` seconds."""

    pool: str
    device: str
    health: str
    message: str = ""
    timeout: float = _DEFAULT_SECONDS
    seen: float = 0.0

    @property
    def says(self) -> tuple[str, str, float]:
        return self.health, self.message, self.timeout


class HealthCache:
    """The health of all devices of a node, also kept in a file over restarts of the kubelet."""

    def __init__(
        self,
        path: Path,
        clock: Clock,
        files: StateFiles = UNJOURNALLED,
        features: HealthFeatures | None = None,
    ) -> None:
        """`features` say what a release's kubelet keeps of a device; without them it follows no health."""
        self._path = path
        self._features = features
        self._files = files
        self._clock = clock
        self._drivers: dict[str, dict[tuple[str, str], DeviceHealth]] = {}

    def load(self) -> None:
        """Loads what the last kubelet stored; a file that cannot be read is logged, and counts as none."""
        content = self._files.read(self._path)
        if content is None:
            return
        now, at = self._clock.monotonic(), self._clock.now()
        try:
            for driver, state in orjson.loads(content).items():
                for stored in (state["Devices"] or {}).values():
                    age = (at - parse_timestamp(stored["LastUpdated"])).total_seconds()
                    device = _restored(stored, now - age)
                    self._drivers.setdefault(driver, {})[device.pool, device.device] = device
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self._drivers.clear()
            log.error("Failed to load health checkpoint, proceeding with empty cache: %s", error)

    def get(self, driver: str, pool: str, device: str) -> tuple[str, str]:
        """(health, message) is Unknown without a message if the last report is too old, or there is none."""
        found = self._drivers.get(driver, {}).get((pool, device))
        if found is None or self._clock.monotonic() - found.seen > found.timeout:
            return UNKNOWN, ""
        return found.health, found.message

    def update(self, driver: str, reports: Sequence[DeviceHealth]) -> list[tuple[str, str]]:
        """Takes a driver's report of all its devices; returns (pool, device) of those that changed."""
        now = self._clock.monotonic()
        known = self._drivers.setdefault(driver, {})
        reported = {(device.pool, device.device): device for device in reports}
        changed = [
            key for key, device in reported.items() if key not in known or known[key].says != device.says
        ]
        known.update(reported)
        for key, old in [*known.items()]:
            if key not in reported and old.health != UNKNOWN and now - old.seen > old.timeout:
                known[key] = DeviceHealth(*key, UNKNOWN, timeout=old.timeout, seen=now)
                changed.append(key)
        if changed:
            self._save()
        return changed

    def clear(self, driver: str) -> None:
        if self._drivers.pop(driver, None) is not None:
            self._save()

    def _save(self) -> None:
        now, at = self._clock.monotonic(), self._clock.now()
        state = {
            driver: {
                "Devices": {
                    f"{device.pool}/{device.device}": self._stored(
                        device, at - timedelta(seconds=now - device.seen)
                    )
                    for device in sorted(devices.values(), key=lambda device: (device.pool, device.device))
                }
            }
            for driver, devices in sorted(self._drivers.items())
        }
        self._files.write(self._path, orjson.dumps(state))

    def _stored(self, device: DeviceHealth, updated: datetime) -> dict[str, Any]:
        stored: dict[str, Any] = {
            "PoolName": device.pool,
            "DeviceName": device.device,
            "Health": device.health,
            "LastUpdated": micro_timestamp(updated),
        }
        if self._features is None or self._features.timeouts:
            stored["HealthCheckTimeout"] = int(device.timeout * _NANOSECONDS)
        if self._features is None or self._features.messages:
            stored["Message"] = device.message
        return stored


def _restored(stored: Mapping[str, Any], seen: float) -> DeviceHealth:
    return DeviceHealth(
        pool=stored["PoolName"],
        device=stored["DeviceName"],
        health=stored["Health"],
        message=stored.get("Message") or "",
        timeout=(stored.get("HealthCheckTimeout") or 0) / _NANOSECONDS or _DEFAULT_SECONDS,
        seen=seen,
    )


class HealthMonitor:
    """Follows the streams of a node's drivers; `changed` is called with a driver and its (pool, device)
    pairs."""

    def __init__(
        self,
        cache: HealthCache,
        clock: Clock,
        rules: HealthFeatures,
        changed: Callable[[str, Sequence[tuple[str, str]]], None],
    ) -> None:
        self._cache = cache
        self._clock = clock
        self._rules = rules
        self._changed = changed
        self._newest: dict[str, object] = {}  # the newest stream by driver

    async def follow(self, driver: str, channel: "Channel", announced: Sequence[str]) -> None:
        """Reads a plugin's stream, and again five seconds after its end, until cancelled.

        Returns if the plugin has no stream. `announced` are the services that the plugin announced.
        """
        from kubeskew.kubelet.protocols.grpc_calls import UNIMPLEMENTED, RpcError

        stream = self._newest[driver] = object()
        version = self._rules.choose(announced)
        while version is not None:
            try:
                await self._read(driver, channel, version, stream)
            except RpcError as error:
                log.debug("health of driver %s: %s", driver, error)
                if error.code is UNIMPLEMENTED and self._rules.careful:
                    return
            await self._clock.sleep(_RETRY_SECONDS)

    async def _read(self, driver: str, channel: "Channel", version: str, stream: object) -> None:
        from kubeskew.kubelet.protocols.dra import HEALTH_VERSIONS

        service = HEALTH_VERSIONS[version]
        try:
            async for answer in service.watch.call(channel, service.watch.request()):
                if self._counts(driver, stream):
                    self.on_report(driver, answer.devices)
        finally:
            if self._counts(driver, stream):
                self._cache.clear(driver)

    def _counts(self, driver: str, stream: object) -> bool:
        return self._newest.get(driver) is stream or not self._rules.careful

    def on_report(self, driver: str, devices: Sequence[Any]) -> None:
        changed = self._cache.update(driver, [self._taken(device) for device in devices])
        if changed:
            self._changed(driver, changed)

    def _taken(self, device: Any) -> DeviceHealth:
        # Fields that a release's protocol lacks are unknown to it.
        seconds = device.health_check_timeout_seconds if self._rules.timeouts else 0
        message = device.message if self._rules.messages else ""
        if len(message) > _LONGEST_MESSAGE:
            message = f"{message[: _LONGEST_MESSAGE - 3]}..."
        known = 0 <= device.health < len(_STATES)
        return DeviceHealth(
            pool=device.device.pool_name,
            device=device.device.device_name,
            health=_STATES[device.health] if known else UNKNOWN,
            message=message,
            timeout=float(seconds) if seconds > 0 else _DEFAULT_SECONDS,
            seen=self._clock.monotonic(),
        )


def add_health(
    pod: Object,
    status: Object,
    claims: ClaimCache,
    health: HealthCache,
    *,
    with_message: bool,
    by_entry: bool = False,
) -> None:
    """Adds health to the regular containers' statuses, next to that of device plugins.

    Upstream's order is random. `by_entry`: a claim is looked for by the name that the pod has for it.
    """
    names = _claim_names(pod)
    specs = {spec["name"]: spec for spec in pod_spec.containers(pod)}
    for container in status.get("containerStatuses") or []:
        uses = (specs[container["name"]].get("resources") or {}).get("claims") or []
        found = {entry["name"]: entry for entry in container.get("allocatedResourcesStatus") or []}
        for use in uses:
            claim = use["name"] if by_entry else names.get(use["name"])
            info = claims.get(pod_spec.namespace_of(pod), claim) if claim else None
            if info is not None:
                request = use.get("request") or ""
                name = f"claim:{use['name']}" + (f"/{request}" if request else "")
                entries = [*_healths(info, request, health, with_message=with_message)]
                found[name] = {"name": name, "resources": entries}
        if statuses := [entry for entry in found.values() if entry["resources"]]:
            container["allocatedResourcesStatus"] = statuses


def _claim_names(pod: Object) -> Mapping[str, str | None]:
    try:
        return {claim.entry: claim.claim for claim in pod_claims(pod, extended=False)}
    except DeviceError:
        return {}  # not created yet, so nothing is prepared


def _healths(info: ClaimInfo, request: str, health: HealthCache, *, with_message: bool) -> Iterator[Object]:
    """One entry stands for each resource ID: devices of a claim that share a CDI ID count once."""
    seen = set()
    for driver, devices in info.devices.items():
        for device in devices:
            if request and device.requests and request.split("/")[0] not in device.requests:
                continue
            resource = device.cdi_ids[0] if device.cdi_ids else f"{driver}/{device.pool}/{device.device}"
            if resource in seen:
                continue
            seen.add(resource)
            state, message = health.get(driver, device.pool, device.device)
            details = {"message": message} if with_message and message else {}
            yield {"resourceID": resource, "health": state, **details}
