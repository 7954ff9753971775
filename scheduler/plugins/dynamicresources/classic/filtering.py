"""Decides whether a node suits the claims that drivers have allocated, or are to allocate.

Source: pkg/scheduler/framework/plugins/dynamicresources, 1.26 to 1.31 (Filter).
"""

from collections.abc import Callable

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.selectors.node_selectors import selector_matches
from kubeskew.scheduler.features.classic import ClassicFeatures
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.status import SUCCESS, Status, failed, unresolvable
from kubeskew.scheduler.plugins.dynamicresources.classic.state import DriverClaim, DriverClaims
from kubeskew.scheduler.plugins.dynamicresources.scheduler_allocation import UNSUITABLE

_NOT_HERE = unresolvable("resourceclaim not available on the node")


class ClaimFilter:
    """`get_class` gives a ResourceClass by its name."""

    def __init__(self, features: ClassicFeatures, get_class: Callable[[str], Object | None]) -> None:
        self._features = features
        self._get_class = get_class
        self._excluded = unresolvable(features.node_filter_reason)

    def check(self, own: DriverClaims, node: NodeInfo) -> Status:
        """Returns the first reason against the node.

        Claims that are allocated elsewhere are noted if they are the only one. With the bug all of them are,
        if a claim in one of as many first places is one that waits for a pod (pull request 122415).
        """
        unavailable = []
        for index, claim in enumerate(own.claims):
            if not claim.is_pending:
                selector = claim.available_on
                if selector is not None and not selector_matches(selector, node.labels, node.name):
                    unavailable.append(index)
                continue
            status = self._check_pending(claim, node)
            if status is not SUCCESS:
                return status
        if not unavailable:
            return SUCCESS
        if not self._features.frees_immediate:
            own.unavailable.update(dict.fromkeys(index for index in unavailable if _is_delayed(own, index)))
        elif any(_is_delayed(own, position) for position in range(len(unavailable))):
            own.unavailable.update(dict.fromkeys(unavailable))
        return _NOT_HERE

    def _check_pending(self, claim: DriverClaim, node: NodeInfo) -> Status:
        selectors = claim.class_selectors
        if self._features.classes_in_filter:
            found = self._get_class(claim.class_name)
            if found is None:
                text = f'resourceclass.resource.k8s.io "{claim.class_name}" not found'
                return failed(f"look up resource class: {text}")
            selectors = [found["suitableNodes"]] if found.get("suitableNodes") else []
        if not all(selector_matches(selector, node.labels, node.name) for selector in selectors):
            return self._excluded
        return UNSUITABLE if node.name in (claim.unsuitable or ()) else SUCCESS


def _is_delayed(own: DriverClaims, index: int) -> bool:
    """Returns whether the claim waits for a pod before it is allocated."""
    return bool(own.claims[index].claim["spec"].get("allocationMode") != "Immediate")
