"""Writes the health of its claims' devices into a pod's status (manager.go,
UpdateAllocatedResourcesStatus)."""

from collections.abc import Iterator, Mapping

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.device_managers import DeviceError
from kubeskew.kubelet.dra.claims import ClaimCache, ClaimInfo
from kubeskew.kubelet.dra.health import HealthCache
from kubeskew.kubelet.dra.pod_claims import pod_claims


def add_health(
    pod: Object,
    status: Object,
    claims: ClaimCache,
    health: HealthCache,
    *,
    with_message: bool,
    by_entry: bool = False,
) -> None:
    """Adds health to the regular containers' statuses, beside that of device plugins.

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
    """Returns the claims' names by entry of the spec, as far as they are known."""
    try:
        return {claim.entry: claim.claim for claim in pod_claims(pod, extended=False)}
    except DeviceError:
        return {}  # not created yet, so nothing is prepared


def _healths(info: ClaimInfo, request: str, health: HealthCache, *, with_message: bool) -> Iterator[Object]:
    """Yields one entry per resource ID: devices of a claim that share a CDI ID count once."""
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
