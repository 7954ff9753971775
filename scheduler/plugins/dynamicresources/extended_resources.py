"""Decides whether a pod needs an extended-resource claim, and plans the claim for each node."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kubeskew.apimachinery.clock import Entropy
from kubeskew.scheduler.features import SchedulerFeatures
from kubeskew.scheduler.framework.extended_resource_cache import ExtendedResources
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import Status, unresolvable
from kubeskew.scheduler.plugins.dynamicresources import extended_resource_claim
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import ClaimTracker
from kubeskew.scheduler.plugins.dynamicresources.extended_resource_claim import ClaimRequests, ClassFor
from kubeskew.scheduler.plugins.dynamicresources.pod_claims import (
    ExtendedResourceClaim,
    ExtendedResourcePlan,
    PodState,
)

_Requests = Callable[[Mapping[str, Any], Iterable[str], ClassFor], ClaimRequests]


class ExtendedResourceClaims:
    """Makes and plans extended-resource claims; `extended` finds the class behind a resource."""

    def __init__(
        self, features: SchedulerFeatures, claims: ClaimTracker, extended: ExtendedResources, entropy: Entropy
    ) -> None:
        self._claims = claims
        self._extended = extended
        self._entropy = entropy
        self._blocks_deletion = features.claims_block_deletion
        self._plugged_too = features.requests_plugin_resources
        self._requests: _Requests = (
            extended_resource_claim.with_reuse
            if features.reuse_by_init_containers
            else extended_resource_claim.per_container
        )

    def of_pod(self, pod: PodInfo) -> ExtendedResourceClaim | None:
        """Takes a leftover claim, or a new one in memory; None if no class backs any of the pod's
        resources."""
        resources = tuple(
            (name, self._extended.class_for(name) is not None)
            for name, asked in sorted(pod.requests.items())
            if asked and self._extended.may_back(name)
        )
        if not any(has_class for _, has_class in resources):
            return None
        existing = self._claims.extended_resource_claim(pod.pod)
        if existing is not None:
            return ExtendedResourceClaim(existing, exists=True, resources=resources)
        claim = extended_resource_claim.new_claim(
            pod, self._entropy.uid(), blocks_deletion=self._blocks_deletion
        )
        return ExtendedResourceClaim(claim, exists=False, resources=resources)

    def on_node(
        self, own: PodState, extended_claim: ExtendedResourceClaim, pod: PodInfo, node: NodeInfo
    ) -> ExtendedResourcePlan | Status | None:
        """Plans the claim for the node; None if device plugins there have all resources.

        As upstream, a pod that has other claims too then gets a plan without requests, and cannot be bound.
        """
        if extended_claim.exists:
            return unresolvable("cannot schedule extended resource claim")
        resources: tuple[str, ...] | Status | None = node.memo.get(extended_claim.resources)
        if resources is None:
            resources = node.memo[extended_claim.resources] = self._backed(extended_claim, node)
        if isinstance(resources, Status):
            return resources
        if not resources and not own.claims:
            return None
        return self._planned(own, extended_claim, pod, resources)

    def usual(
        self, own: PodState, extended_claim: ExtendedResourceClaim, pod: PodInfo
    ) -> ExtendedResourcePlan:
        return self._planned(
            own, extended_claim, pod, tuple(name for name, has_class in extended_claim.resources if has_class)
        )

    @staticmethod
    def unknown_to(extended_claim: ExtendedResourceClaim, node: NodeInfo) -> str | None:
        """Finds the first resource that neither a class backs nor the node names; None if there is none."""
        missing = (name for name, has_class in extended_claim.resources if not has_class)
        return next((name for name in missing if name not in node.extended_resources), None)

    def _backed(self, extended_claim: ExtendedResourceClaim, node: NodeInfo) -> tuple[str, ...] | Status:
        """The claim has those resources that the node has from DRA alone."""
        if self.unknown_to(extended_claim, node) is not None:
            return unresolvable("cannot fit resource")
        backed = [
            resource
            for resource, has_class in extended_claim.resources
            if has_class and self._extended.is_lacking(node.allocatable, resource)
        ]
        if backed and self._plugged_too:
            return tuple(resource for resource, has_class in extended_claim.resources if has_class)
        return tuple(backed)

    def _planned(
        self, own: PodState, extended_claim: ExtendedResourceClaim, pod: PodInfo, resources: tuple[str, ...]
    ) -> ExtendedResourcePlan:
        plan = own.extended_plans.get(resources)
        if plan is None:
            plan = own.extended_plans[resources] = self._plan(own, extended_claim, pod, resources)
        return plan

    def _plan(
        self, own: PodState, extended_claim: ExtendedResourceClaim, pod: PodInfo, resources: tuple[str, ...]
    ) -> ExtendedResourcePlan:
        requests = self._requests(pod.spec, resources, self._extended.class_for)
        claim = {**extended_claim.claim, "spec": {"devices": {"requests": [*requests.requests]}}}
        return ExtendedResourcePlan(claim, requests, own.allocator.plan([claim])[0])
