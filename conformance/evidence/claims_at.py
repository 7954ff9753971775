"""Reads pods and claims for which devices each container should have, without the help of the components."""

from collections.abc import Iterator
from typing import Any

from kubeskew.apimachinery.objects import ObjectView

_DRAFTED = frozenset({"Allocated", "Reallocate"})  # phases of claims that have devices
_SKIPS = frozenset({"*", "NodePrepareResources"})  # KEP-5945: the driver is not called to prepare


def named_by_status(pod: ObjectView) -> Any:
    """Returns what of a pod's status says which claims its containers use."""
    status = pod.get("status") or {}
    return status.get("resourceClaimStatuses"), status.get("extendedResourceClaimStatus")


def container_requests(pod: ObjectView, container: str) -> Iterator[tuple[str, str]]:
    """Yields claim and request for all that a container should have; an empty request is the whole claim.

    Up to 1.27 the name of a claim from a template follows from pod and entry; later the status has it. Up to
    1.30 an entry has its claim or template in `source`. KEP-3063 as drafted has containers list bare names.
    """
    status = pod.get("status") or {}
    told = {each["name"]: each.get("resourceClaimName") for each in status.get("resourceClaimStatuses") or []}
    entries = {each["name"]: each for each in (pod.get("spec") or {}).get("resourceClaims") or []}
    for use in (_container(pod, container).get("resources") or {}).get("claims") or []:
        name, request = (use, "") if isinstance(use, str) else (use["name"], use.get("request") or "")
        entry = entries.get(name)
        if entry is None:
            continue
        made = told.get(name, f"{pod['metadata']['name']}-{name}")
        claim = (entry.get("source") or entry).get("resourceClaimName") or made
        if claim:  # the status may say that none is needed
            yield claim, request
    extended = status.get("extendedResourceClaimStatus") or {}
    for mapping in extended.get("requestMappings") or []:
        if mapping["containerName"] == container:
            yield extended["resourceClaimName"], mapping["requestName"]


def own_variables(pod: ObjectView, container: str) -> set[str]:
    """Returns the variables that the container's spec sets."""
    return {each["name"] for each in _container(pod, container).get("env") or []}


def _container(pod: ObjectView, name: str) -> ObjectView:
    spec = pod.get("spec") or {}
    kinds = ("initContainers", "containers", "ephemeralContainers")
    return next((each for kind in kinds for each in spec.get(kind) or [] if each["name"] == name), {})


def allocation_of(status: ObjectView) -> Any:
    """Returns the allocation in a claim's status; of KEP-3063 as drafted what is written in its phases."""
    drafted = {"attributes": status.get("attributes")} if status.get("phase") in _DRAFTED else None
    return status.get("allocation") or drafted


def _results(status: ObjectView) -> list[ObjectView]:
    return ((allocation_of(status) or {}).get("devices") or {}).get("results") or []


def _handles(status: ObjectView) -> list[ObjectView]:
    """Returns the handles of classic DRA, up to 1.31: one without content where a claim has none."""
    allocation = allocation_of(status) or {}
    if handles := allocation.get("resourceHandles"):
        return [*handles]
    return [{}] if allocation and "devices" not in allocation and status.get("driverName") else []


def preparing_drivers(status: ObjectView) -> list[str]:
    """Returns the drivers that have to be called before a container starts, for a claim's status."""
    by_driver: dict[str, bool] = {}
    for result in _results(status):
        calls = not _SKIPS & {*(result.get("skipNodeOperations") or ())}
        by_driver[result["driver"]] = by_driver.get(result["driver"], False) or calls
    for handle in _handles(status):
        by_driver[str(handle.get("driverName") or status.get("driverName"))] = True
    return [driver for driver, calls in by_driver.items() if calls]


def devices(status: ObjectView, driver: str) -> list[tuple[str, str, str]]:
    """Returns request, pool and device of all that a claim is allocated of a driver, sorted."""
    return sorted(
        (_request(result), result["pool"], result["device"])
        for result in _results(status)
        if result["driver"] == driver
    )


def device_names(status: ObjectView, driver: str, request: str) -> list[str] | None:
    """Returns the devices of a driver in a claim's request, of the whole claim if that is empty, sorted.

    None if the allocation says nothing of devices: a classic driver's controller has written it.
    """
    names = [
        each["namedResources"]["name"]
        for handle in _handles(status)
        if handle.get("driverName") == driver
        for each in (handle.get("structuredData") or {}).get("results") or []
        if "namedResources" in each
    ]
    if names:
        return sorted(names)
    if _handles(status):
        return None
    return sorted(name for each, _, name in devices(status, driver) if request in {"", each})


def _request(result: ObjectView) -> str:
    """Returns the request without its subrequest: containers and drivers name requests only."""
    return str(result["request"]).partition("/")[0]
