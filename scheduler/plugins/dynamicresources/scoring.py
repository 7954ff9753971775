"""Scores the devices that a node has for a pod: the earlier an alternative, the better.

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources, computeScore, 1.35 … 1.37.
"""

from collections.abc import Mapping
from typing import Any

from kubeskew.scheduler.allocator.claims import allocation
from kubeskew.scheduler.plugins.dynamicresources.state import NodeChoice, PodState

_MOST_ALTERNATIVES = 8  # FirstAvailableDeviceRequestMaxSize


def has_alternatives(own: PodState) -> bool:
    return any(
        request.get("firstAvailable")
        for claim in own.claims
        for request in ((claim.claim.get("spec") or {}).get("devices") or {}).get("requests") or ()
    )


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
