"""Finds the claims of a pod in releases of classic DRA, and decides whether it can be scheduled with them.

Source: pkg/scheduler/framework/plugins/dynamicresources, 1.26 to 1.30 (podResourceClaims, PreFilter).
"""

from collections.abc import Iterator
from typing import NamedTuple

from kubeskew.apimachinery.claim_users import controller_of, reserved_for
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.claims import ClaimNotUsable, allocation, display
from kubeskew.scheduler.features.classic import ClassicFeatures
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import ClaimTracker


class NamedClaim(NamedTuple):
    """A claim of a pod, and its entry in the pod's spec."""

    entry: str
    claim: Object


def names(pod: Object, features: ClassicFeatures) -> Iterator[tuple[str, str, bool]]:
    """(entry, claim's name, whether it must belong to the pod) for every claim that the pod needs.

    Raises ClaimNotUsable for one that is not made yet.
    """
    metadata = pod["metadata"]
    where = f'pod "{metadata.get("namespace", "")}/{metadata["name"]}"'
    statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    generated = {status["name"]: status for status in statuses}
    for entry in pod["spec"].get("resourceClaims") or ():
        source = (entry.get("source") or {}) if features.nested_source else entry
        if source.get("resourceClaimName"):
            yield entry["name"], source["resourceClaimName"], False
        elif not source.get("template" if features.inline_templates else "resourceClaimTemplateName"):
            raise ClaimNotUsable(
                f'{where}, spec.resourceClaim "{entry["name"]}": none of the supported fields are set'
            )
        elif features.fixed_names:
            yield entry["name"], f"{metadata['name']}-{entry['name']}", True
        elif entry["name"] not in generated:
            raise ClaimNotUsable(f"{where}: ResourceClaim not created yet")
        elif generated[entry["name"]].get("resourceClaimName"):  # otherwise no claim was needed
            yield entry["name"], generated[entry["name"]]["resourceClaimName"], True


def is_reserved_for(pod: Object, claim: Object) -> bool:
    uid = pod["metadata"].get("uid")
    return any(consumer.get("uid") == uid for consumer in reserved_for(claim))


def check_owner(pod: Object, claim: Object) -> None:
    """Raises ClaimNotUsable for a claim that was made for somebody else."""
    metadata = pod["metadata"]
    if (controller_of(claim) or {}).get("uid") != metadata.get("uid"):
        name = f"{metadata.get('namespace', '')}/{metadata['name']}"
        text = f"ResourceClaim {display(claim)} was not created for pod {name} (pod is not owner)"
        raise ClaimNotUsable(text)


class ClassicPodClaims:
    """The claims of pods, as their specs and statuses name them."""

    def __init__(self, features: ClassicFeatures, claims: ClaimTracker) -> None:
        self._features = features
        self._claims = claims

    def of(self, pod: Object) -> list[NamedClaim]:
        """Raises ClaimNotUsable."""
        namespace = pod["metadata"].get("namespace", "")
        found = []
        for entry, name, owned in names(pod, self._features):
            claim = self._claims.get(namespace, name)
            if claim is None:
                raise ClaimNotUsable(self._missing(namespace, name, owned=owned))
            if claim["metadata"].get("deletionTimestamp"):
                raise ClaimNotUsable(f'resourceclaim "{name}" is being deleted')
            if owned:
                check_owner(pod, claim)
            found.append(NamedClaim(entry, claim))
        return found

    def _missing(self, namespace: str, name: str, *, owned: bool) -> str:
        if owned and self._features.fixed_names:
            return f'waiting for dynamic resource controller to create the resourceclaim "{name}"'
        if self._features.assumes:
            return f'could not find ResourceClaim "{namespace}/{name}"'
        return f'resourceclaim.{self._features.group} "{name}" not found'

    def check(self, pod: Object, claim: Object) -> None:
        """Raises ClaimNotUsable for a claim that somebody else has to change first."""
        is_allocated = allocation(claim) is not None
        if not self._features.finalizer:
            self.check_driver(claim)
        if (claim.get("status") or {}).get("deallocationRequested"):
            raise ClaimNotUsable("resourceclaim must be reallocated")
        if is_allocated and not self._can_be_reserved(claim) and not is_reserved_for(pod, claim):
            raise ClaimNotUsable("resourceclaim in use")

    @staticmethod
    def check_driver(claim: Object) -> None:
        """Raises ClaimNotUsable for a claim that its driver is to allocate without a pod."""
        if allocation(claim) is None and claim["spec"].get("allocationMode") == "Immediate":
            raise ClaimNotUsable("unallocated immediate resourceclaim")

    def _can_be_reserved(self, claim: Object) -> bool:
        """Returns whether one more user may have it; the server alone counts those of a shared one."""
        if not self._features.shareable_flag:
            return True
        return not reserved_for(claim) or bool((allocation(claim) or {}).get("shareable"))
