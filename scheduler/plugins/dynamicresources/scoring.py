"""Scores the devices that a node has for a pod: the earlier an alternative, the better.

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources, computeScore, 1.35 … 1.37.
"""

from collections.abc import Mapping
from typing import Any

from kubeskew.scheduler.allocator.claims import allocation
from kubeskew.scheduler.framework.interfaces import ScoreError
from kubeskew.scheduler.plugins.dynamicresources.state import NodeChoice, PodState

_MOST_ALTERNATIVES = 8  # FirstAvailableDeviceRequestMaxSize


def has_alternatives(own: PodState) -> bool:
    return any(
        request.get("firstAvailable")
        for claim in own.claims
        for request in ((claim.claim.get("spec") or {}).get("devices") or {}).get("requests") or ()
    )


def has_allocated(own: PodState) -> bool:
    """Returns whether a claim of the pod was allocated before this attempt."""
    return any(allocation(claim.claim) is not None for claim in own.claims)


def refuse(own: PodState, choice: NodeChoice | None) -> None:
    """Raises ScoreError if this attempt allocates claims on a node, and others were allocated before.

    Upstream goes through all claims of the pod, and takes for each the next allocation of this attempt
    (139016). A node that was chosen for an equal pod before has no `choice`.
    """
    found = choice.found if choice is not None else None
    count = len(found.solution) if found is not None else len(own.plans)
    if count:
        raise ScoreError(f"number of allocations {count} is smaller than number of claims")


def score(own: PodState, choice: NodeChoice) -> int:
    """Returns the sum over all requests with alternatives, of claims allocated before and now."""
    total = sum(
        _of_claim(claim.claim, _chosen_before(allocation(claim.claim)))
        for claim in own.claims
        if allocation(claim.claim) is not None
    )
    if choice.found is not None:
        for plan, solution in zip(choice.found.claims, choice.found.solution, strict=True):
            total += _of_claim(plan.claim, {chosen.request.name for chosen in solution.choices})
    return total


def _chosen_before(result: Mapping[str, Any] | None) -> set[str]:
    return {allocated["request"] for allocated in ((result or {}).get("devices") or {}).get("results") or ()}


def _of_claim(claim: Mapping[str, Any], chosen: set[str]) -> int:
    return sum(
        _MOST_ALTERNATIVES - place
        for request in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ()
        for place, alternative in enumerate(request.get("firstAvailable") or ())
        if f"{request['name']}/{alternative['name']}" in chosen
    )
