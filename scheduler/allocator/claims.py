"""Reads how claims and pods refer to each other, and defines the errors that end the search for a claim's
devices. Claims have the v1 shape.

Source: k8s.io/dynamic-resource-allocation/resourceclaim, 1.36.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.scheduler.allocator.allocated_state import Amounts, DeviceID

FINALIZER = "resource.kubernetes.io/delete-protection"
EXTENDED_ANNOTATION = "resource.kubernetes.io/extended-resource-claim"


class AllocationError(Exception):
    """An error for which other nodes need not be tried."""


class SearchTimeout(AllocationError):  # noqa: N818 - like TimeoutError
    def __init__(self) -> None:
        super().__init__("filter operation aborted: context deadline exceeded")


class NodeAllocationError(AllocationError):
    """Only this node cannot be judged."""


class TooManyResults(AllocationError):  # noqa: N818 - steers the search, rarely seen outside
    """A claim would get more devices than its status can hold."""

    def __init__(self) -> None:
        super().__init__("allocation max size exceeded")


class Unsolvable(Exception):  # noqa: N818 - ends a search, is never seen outside
    """There is no solution, as an easier problem proves."""


class AllocatedDevice(NamedTuple):
    id: DeviceID
    taken: Amounts | None  # of a device that is shared, None if the claim has all of it


class ClaimNotUsable(Exception):  # noqa: N818 - a finding, not a fault
    """The pod cannot be scheduled because of one of its claims; the text is for people."""


def display(claim: Mapping[str, Any]) -> str:
    """`namespace/name`, as messages show it."""
    metadata = claim["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


def claim_names(pod: Object) -> Iterator[tuple[str, bool]]:
    """Pairs the name of each claim that the pod needs with whether the pod must own it; raises ClaimNotUsable
    if a template's claim is not created yet."""
    metadata = pod["metadata"]
    generated = {
        status["name"]: status for status in (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    }
    for reference in pod["spec"].get("resourceClaims") or ():
        if reference.get("resourceClaimName"):
            yield reference["resourceClaimName"], False
        elif reference.get("resourceClaimTemplateName"):
            status = generated.get(reference["name"])
            if status is None:
                where = f'pod "{metadata.get("namespace", "")}/{metadata["name"]}"'
                raise ClaimNotUsable(f"{where}: ResourceClaim not created yet")
            if status.get("resourceClaimName"):  # otherwise no claim was needed
                yield status["resourceClaimName"], True


def is_extended_resource_claim(claim: Mapping[str, Any]) -> bool:
    return (claim["metadata"].get("annotations") or {}).get(EXTENDED_ANNOTATION) == "true"


def allocation(claim: Mapping[str, Any]) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = (claim.get("status") or {}).get("allocation")
    return found


def allocated_devices(result: Mapping[str, Any] | None, *, shares: bool) -> list[AllocatedDevice]:
    """Admin access takes no device. Without `shares` (the gate DRAConsumableCapacity) a share counts as the
    whole device."""
    results = ((result or {}).get("devices") or {}).get("results") or ()
    return [
        AllocatedDevice(
            DeviceID(each["driver"], each["pool"], each["device"]),
            _amounts(each) if shares and each.get("shareID") else None,
        )
        for each in results
        if not each.get("adminAccess")
    ]


def _amounts(result: Mapping[str, Any]) -> dict[str, Quantity]:
    return {name: Quantity.of(amount) for name, amount in (result.get("consumedCapacity") or {}).items()}
