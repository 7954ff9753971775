"""The claims that a pod and its containers use, and those in use on a node, as the DRA manager keeps them.

Sources: k8s.io/dynamic-resource-allocation/resourceclaim, pkg/kubelet/cm/dra/claiminfo.go.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from kubeskew.apimachinery.claim_users import is_for_pod
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_dra_extended_resource, is_extended_resource
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.device_managers import DeviceError
from kubeskew.kubelet.dra.plugin import PREPARE, UNPREPARE, ClaimRef, PreparedDevice

_BOTH = frozenset({PREPARE, UNPREPARE})


class PodClaim(NamedTuple):
    entry: str  # its name in spec.resourceClaims; empty for the extended-resource claim
    claim: str | None  # the ResourceClaim's name; None: the pod needs none
    owned: bool  # made for the pod, so the pod must own it


def generated_name(pod: Object, entry: Object) -> str | None:
    """The name of the claim that was made for the entry; None if the entry needs none.

    Raises DeviceError if that is not decided yet.
    """
    for status in (pod.get("status") or {}).get("resourceClaimStatuses") or []:
        if status["name"] == entry["name"]:
            name: str | None = status.get("resourceClaimName")
            return name
    pod_name = f"{pod_spec.namespace_of(pod)}/{pod_spec.name_of(pod)}"
    raise DeviceError(f'pod "{pod_name}": ResourceClaim not created yet')


def pod_claims(
    pod: Object, *, extended: bool, generated: Callable[[Object, Object], str | None] = generated_name
) -> list[PodClaim]:
    """Claims stand in the order of the pod's spec, that of extended resources last.

    Raises DeviceError if one is not created yet. `extended`: DRAExtendedResource is on. `generated` names the
    claim of a pod's entry that has a template.
    """
    found = [_named(pod, entry, generated) for entry in pod["spec"].get("resourceClaims") or []]
    claim_status = extended_claim(pod) if extended else None
    if claim_status is not None:
        found.append(PodClaim("", claim_status["resourceClaimName"], owned=False))
    return found


def extended_claim(pod: Object) -> Object | None:
    return (pod.get("status") or {}).get("extendedResourceClaimStatus")


def _named(
    pod: Object, entry: Object, generated: Callable[[Object, Object], str | None] = generated_name
) -> PodClaim:
    source = entry.get("source") or entry  # nested up to 1.30
    if source.get("resourceClaimName"):
        return PodClaim(entry["name"], source["resourceClaimName"], owned=False)
    if not source.get("resourceClaimTemplateName"):
        pod_name = f"{pod_spec.namespace_of(pod)}/{pod_spec.name_of(pod)}"
        text = f'pod "{pod_name}", spec.resourceClaim "{entry["name"]}": none of the supported fields are set'
        raise DeviceError(text)
    return PodClaim(entry["name"], generated(pod, entry), owned=True)


def container_requests(
    pod: Object, container: Object, *, extended: bool, implicit: bool
) -> Iterator[tuple[str, str]]:
    """Pairs (claim name, request name) stand for the requests that the container uses; an empty request means
    the whole claim. `implicit`: implicit names of extended resources count, too."""
    wanted: dict[str, list[str]] = {}
    for use in (container.get("resources") or {}).get("claims") or []:
        wanted.setdefault(use["name"], []).append(use.get("request") or "")
    for entry in pod["spec"].get("resourceClaims") or []:
        if entry["name"] in wanted:
            claim = _named(pod, entry).claim
            yield from ((claim, request) for request in wanted[entry["name"]] if claim is not None)
    claim_status = extended_claim(pod) if extended else None
    if claim_status is None:
        return
    is_named = is_dra_extended_resource if implicit else is_extended_resource
    resources = {
        name
        for name, amount in pod_spec.requests_of(container).items()
        if is_named(name) and not amount.is_zero()
    }
    for mapping in claim_status.get("requestMappings") or []:
        if mapping["containerName"] == container["name"] and mapping["resourceName"] in resources:
            yield claim_status["resourceClaimName"], mapping["requestName"]


def check_owner(pod: Object, claim: Object, *, groups: bool) -> None:
    """Raises DeviceError if a claim made from a template belongs neither to the pod nor (with `groups`) to
    its group."""
    if is_for_pod(claim, pod, groups=groups):
        return
    metadata = claim["metadata"]
    raise DeviceError(
        f"ResourceClaim {metadata['namespace']}/{metadata['name']} was not created for pod "
        f"{pod_spec.namespace_of(pod)}/{pod_spec.name_of(pod)} (pod is not owner)"
    )


def drivers_of(claim: Object) -> list[str]:
    """Drivers stand in the order in which their devices or handles appear."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or []
    drivers = [result["driver"] for result in results]
    handles = allocation.get("resourceHandles") or []  # up to 1.31, for drivers with a controller
    drivers += [handle.get("driverName") or claim["status"].get("driverName") for handle in handles]
    return [driver for driver in dict.fromkeys(drivers) if driver]


def skipped_operations(claim: Object) -> dict[str, frozenset[str]]:
    """A driver's call is skipped if all its devices in the claim do without it (KEP-5945); `*` stands for
    both calls."""
    found: dict[str, frozenset[str]] = {}
    for result in claim["status"]["allocation"]["devices"]["results"]:
        skipped = frozenset(result.get("skipNodeOperations") or ())
        skips = _BOTH if "*" in skipped else skipped & _BOTH
        found[result["driver"]] = found.get(result["driver"], _BOTH) & skips
    return {driver: skips for driver, skips in found.items() if skips}


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
    handles: tuple[Object, ...] = ()  # up to 1.30: what the drivers receive of it
    unpreparing: bool = False  # calls to its drivers are under way

    @property
    def ref(self) -> ClaimRef:
        return ClaimRef(self.namespace, self.name, self.uid)

    def set_devices(self, driver: str, devices: Sequence[PreparedDevice]) -> None:
        self.devices[driver] = list(devices)

    def cdi_ids(self, request: str) -> list[str]:
        """An empty request stands for all; each CDI ID comes once."""
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
        """Raises CheckpointError."""
        self._infos = {(info.namespace, info.name): info for info in self._store.load()}

    def infos(self) -> list[ClaimInfo]:
        return [*self._infos.values()]

    def get(self, namespace: str, name: str) -> ClaimInfo | None:
        return self._infos.get((namespace, name))

    def names_of(self, pod_uid: str) -> list[str]:
        """All claims of a pod are in its namespace."""
        return [info.name for info in self._infos.values() if pod_uid in info.pod_uids]

    def left_behind(self, active: set[str]) -> dict[tuple[str, str], list[str]]:
        """Names of claims, by UID and namespace of a pod that has them and is not active."""
        held: dict[tuple[str, str], list[str]] = {}
        for info in self._infos.values():
            for pod_uid in sorted(info.pod_uids - active):
                held.setdefault((pod_uid, info.namespace), []).append(info.name)
        return held

    def add(self, info: ClaimInfo) -> None:
        self._infos[info.namespace, info.name] = info

    def delete(self, namespace: str, name: str) -> None:
        self._infos.pop((namespace, name), None)

    def save(self) -> None:
        self._store.store(self.infos())
