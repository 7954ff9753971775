"""Gathers the devices in use for one attempt in two looks, as upstream did before pull request 136269.

A scheduling cycle copies the devices of the claims that it knows, then adds those of allocations in flight. A
binding that ends between the two looks moves its devices from what is read second to what was read first:
they are seen nowhere, and given away again. Upstream's bindings have threads of their own and seldom come at
just that moment; here a cycle lets other tasks run there, now and then.

Source: pkg/scheduler/framework/plugins/dynamicresources/dra_manager.go (GatherAllocatedState), 1.32 … 1.35.
"""

from kubeskew.apimachinery.clock import Entropy
from kubeskew.scheduler.allocator.allocated_state import AllocatedDevices, AllocatedState
from kubeskew.scheduler.cooperative import pause
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import ClaimTracker

_ATTEMPTS = 64  # one attempt of 64 is interrupted between the looks: a guess


class TwoLooks:
    def __init__(self, claims: ClaimTracker, entropy: Entropy) -> None:
        self._claims = claims
        self._entropy = entropy

    def devices(self) -> AllocatedState:
        found = AllocatedDevices()
        self._claims.count_written(found)
        if self._entropy.random() * _ATTEMPTS < 1:
            pause()
        self._claims.count_pending(found)
        # Without counts of changes, by which answers would be kept from one attempt to the next.
        return AllocatedState(found.state.devices, found.state.shared, found.state.consumed)
