"""Writes what a driver allocates or frees, in the order that survives a crash at any point.

Source: k8s.io/dynamic-resource-allocation/controller (syncClaim, allocateClaims), 0.26 to 0.31.
"""

from collections.abc import Callable, Sequence

from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.drivers.controller.driver import ClaimAllocation, Driver, DriverError
from kubeskew.kubelet.drivers.controller.features import LibraryFeatures


class ClaimAllocator:
    """Methods raise DriverError, with the text of upstream's error, or a connection error."""

    def __init__(
        self,
        client: APIClient,
        ref: Ref,
        name: str,
        driver: Driver,
        features: LibraryFeatures,
        written: Callable[[Object], None],
        *,
        reserves: bool,
    ) -> None:
        """`written` is told of every answer.

        `reserves`: the pod for which a claim is allocated gets its reservation in the same write.
        """
        self._written = written
        self._client = client
        self._ref = ref
        self._name = name
        self._driver = driver
        self._features = features
        self._reserves = reserves
        self.finalizer = f"{name}/deletion-protection"

    def is_ours(self, claim: Object) -> bool:
        """Returns whether the claim has this driver's finalizer."""
        return self.finalizer in (claim["metadata"].get("finalizers") or ())

    async def free(self, claim: Object) -> None:
        """Deallocate, clear the status, and let the claim go, in this order."""
        status = claim.get("status") or {}
        if status.get("allocation") is not None:
            await self._deallocate(claim, "deallocate")
            gone = ("allocation", "driverName", "deallocationRequested")
            left = {key: value for key, value in status.items() if key not in gone}
            claim = await self._update({**claim, "status": left}, "status", "remove allocation")
        else:
            await self._deallocate(claim, "stop allocation")
            if status.get("deallocationRequested"):
                left = {key: value for key, value in status.items() if key != "deallocationRequested"}
                claim = await self._update({**claim, "status": left}, "status", "remove deallocation")
        finalizers = [name for name in claim["metadata"].get("finalizers") or () if name != self.finalizer]
        metadata = {**claim["metadata"], "finalizers": finalizers}
        await self._update({**claim, "metadata": metadata}, "", "remove finalizer")

    async def allocate(self, claims: Sequence[ClaimAllocation], node: str, user: Object | None) -> None:
        """Allocate claims of one pod, or an immediate one (without `user`).

        Until 0.27 one after the other, ending at the first error; later together, and each has its own.
        """
        batches = [list(claims)] if self._features.batches else [[claim] for claim in claims]
        for batch in batches:
            await self._allocate_batch(batch, node, user)
            if not self._features.batches and batch[0].error:
                return

    async def _allocate_batch(self, batch: list[ClaimAllocation], node: str, user: Object | None) -> None:
        waiting = [claim for claim in batch if (claim.claim.get("status") or {}).get("allocation") is None]
        for claim in waiting:
            try:
                await self._protect(claim)
            except DriverError as error:
                claim.error = str(error)
        ready = [claim for claim in waiting if not claim.error]
        if not ready:
            return
        prefix = "allocate: " if user is None or not self._features.batches else ""
        try:
            await self._driver.allocate(ready, node)
        except DriverError as error:
            for claim in ready:
                claim.error = f"{prefix}{error}"
            return
        for claim in ready:
            if claim.error:
                claim.error = f"{prefix}{claim.error}"
            elif claim.allocation is None:
                claim.error = "allocating claim: missing allocation from driver"
            else:
                await self._store(claim, claim.allocation, user)

    async def _protect(self, claim: ClaimAllocation) -> None:
        if self.is_ours(claim.claim):
            return
        finalizers = [*(claim.claim["metadata"].get("finalizers") or ()), self.finalizer]
        changed = {**claim.claim, "metadata": {**claim.claim["metadata"], "finalizers": finalizers}}
        claim.claim = await self._update(changed, "", "add finalizer")

    async def _store(self, claim: ClaimAllocation, allocation: Object, user: Object | None) -> None:
        status = dict(claim.claim.get("status") or {})
        if self._features.by_controller:
            status["allocation"] = {**allocation, "controller": self._name}
        else:
            status |= {"allocation": allocation, "driverName": self._name}
        if user is not None and self._reserves:
            status["reservedFor"] = [*(status.get("reservedFor") or ()), user]
        try:
            claim.claim = await self._update({**claim.claim, "status": status}, "status", "add allocation")
        except DriverError as error:
            claim.error = str(error)

    async def _deallocate(self, claim: Object, what: str) -> None:
        try:
            await self._driver.deallocate(claim)
        except DriverError as error:
            raise DriverError(f"{what}: {error}") from error

    async def _update(self, claim: Object, subresource: str, what: str) -> Object:
        try:
            answer = await self._client.update(self._ref, claim, subresource)
        except StatusError as error:
            raise DriverError(f"{what}: {error.message}") from error
        self._written(answer)
        return answer
