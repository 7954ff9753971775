"""The claims in use on a node, as the DRA manager keeps them in memory and in its checkpoint."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.dra.plugin import ClaimRef, PreparedDevice


@dataclass(slots=True)
class ClaimInfo:
    """A claim, its users, and its devices per driver."""

    namespace: str
    name: str
    uid: str
    pod_uids: set[str] = field(default_factory=set)
    devices: dict[str, list[PreparedDevice]] = field(default_factory=dict)  # may be empty for a driver
    skips: dict[str, frozenset[str]] = field(default_factory=dict)  # driver → calls to leave out
    prepared: bool = False  # prepared by this kubelet: not in the checkpoint
    driver: str = ""  # up to 1.30: whose controller allocated it
    class_name: str = ""  # up to 1.30
    handles: tuple[Object, ...] = ()  # up to 1.30: what the drivers are told of it
    unpreparing: bool = False  # calls to its drivers are under way

    @property
    def ref(self) -> ClaimRef:
        return ClaimRef(self.namespace, self.name, self.uid)

    def set_devices(self, driver: str, devices: Sequence[PreparedDevice]) -> None:
        self.devices[driver] = list(devices)

    def cdi_ids(self, request: str) -> list[str]:
        """Returns the CDI IDs for a request, each once; for all requests if it is empty."""
        found = (
            cdi_id
            for devices in self.devices.values()
            for device in devices
            if not request or request in device.requests or not device.requests
            for cdi_id in device.cdi_ids
        )
        return list(dict.fromkeys(found))


class ClaimStore(Protocol):
    """Keeps claims over restarts."""

    def load(self) -> list[ClaimInfo]: ...

    def store(self, infos: Sequence[ClaimInfo]) -> None: ...


class ClaimCache:
    """All claims, by namespace and name. Call `load` first, and `save` after changes."""

    def __init__(self, store: ClaimStore) -> None:
        self._infos: dict[tuple[str, str], ClaimInfo] = {}
        self._store = store

    def load(self) -> None:
        """Loads what the last kubelet stored."""
        self._infos = {(info.namespace, info.name): info for info in self._store.load()}

    def infos(self) -> list[ClaimInfo]:
        return [*self._infos.values()]

    def get(self, namespace: str, name: str) -> ClaimInfo | None:
        return self._infos.get((namespace, name))

    def names_of(self, pod_uid: str) -> list[str]:
        """Returns the claims that a pod uses; all are in its namespace."""
        return [info.name for info in self._infos.values() if pod_uid in info.pod_uids]

    def add(self, info: ClaimInfo) -> None:
        self._infos[info.namespace, info.name] = info

    def delete(self, namespace: str, name: str) -> None:
        self._infos.pop((namespace, name), None)

    def save(self) -> None:
        self._store.store(self.infos())
