"""Waits in PreBind for devices with binding conditions (KEP-5007)."""

from collections.abc import Iterator

from kubeskew.scheduler.allocator.binding_conditions import (
    BindingError,
    BindingTimeout,
    Readiness,
    conditional,
)
from kubeskew.scheduler.allocator.claims import display
from kubeskew.scheduler.features.dynamic_resources import DynamicResourcesFeatures
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.handle import Handle
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import ClaimTracker
from kubeskew.scheduler.plugins.dynamicresources.claim_writer import ClaimError
from kubeskew.scheduler.plugins.dynamicresources.state import ExtendedResourceClaim, PodClaim, PodState

_POLL_SECONDS = 5.0


class DeviceWait:
    """Waits until the devices of a pod's claims are ready for it."""

    def __init__(
        self, features: DynamicResourcesFeatures, claims: ClaimTracker, handle: Handle, profile: str
    ) -> None:
        self._features = features
        self._claims = claims
        self._handle = handle
        self._profile = profile
        self._readiness = Readiness(features)

    def lost(self, claims: list[PodClaim]) -> list[int]:
        """Returns the allocated claims (by their place in the list) whose devices failed, or took too
        long."""
        if not self._features.binding_conditions:
            return []
        now = self._handle.clock.now()
        return [
            index
            for index, claim in enumerate(claims)
            if next(conditional(claim.claim), None) is not None and self._readiness.is_lost(claim.claim, now)
        ]

    async def wait(self, own: PodState, pod: PodInfo, node: str) -> None:
        """Waits; raises BindingError, or ClaimError for a claim that is gone."""
        if not self._features.binding_conditions:
            return
        if all(next(conditional(claim.claim), None) is None for claim in _bound(own)):
            return
        self._handle.recorder.event(
            pod.pod,
            "Normal",
            "BindingConditionsPending",
            f"waiting for binding conditions for device on node {node}",
            action="Scheduling",
        )
        began, status = self._handle.clock.monotonic(), "error"
        try:
            await self._poll(own, began)
            status = "success"
        except BindingError as error:
            status = "timeout" if isinstance(error, BindingTimeout) else "failure"
            raise
        finally:
            seconds = self._handle.clock.monotonic() - began
            claims = [claim.claim for claim in _bound(own)]
            self._handle.metrics.dynamic.waited(claims, self._profile, status, seconds)

    async def _poll(self, own: PodState, began: float) -> None:
        clock = self._handle.clock
        end = began + self._features.binding_seconds
        while not self._is_ready(own):
            left = end - clock.monotonic()
            await clock.sleep(max(0.0, min(_POLL_SECONDS, left)))
            if left <= _POLL_SECONDS:
                raise self._readiness.expired()

    def _is_ready(self, own: PodState) -> bool:
        """Returns whether the claims are ready, by the informer's state."""
        for bound in _bound(own):
            metadata = bound.claim["metadata"]
            claim = self._claims.get(metadata.get("namespace", ""), metadata["name"])
            if claim is None:
                raise ClaimError(f'could not find ResourceClaim "{display(bound.claim)}"')
            bound.claim = claim
            if not self._readiness.is_ready(claim):
                if self._readiness.is_overdue(claim, self._handle.clock.now()):
                    raise self._readiness.overdue(claim)
                return False
        return True


def _bound(own: PodState) -> Iterator[PodClaim | ExtendedResourceClaim]:
    """Yields the claims that the server has for the pod."""
    yield from own.claims
    if own.extended_claim is not None and own.extended_claim.exists:
        yield own.extended_claim
