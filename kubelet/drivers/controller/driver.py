"""The interface that a driver of classic DRA implements for its controller.

    class MyDriver:
        async def class_parameters(self, resource_class): ...

    controller = DriverController(client, clock, informers, Version(30), "gpu.example.com", MyDriver())
    await controller.run(stop)

Source: k8s.io/dynamic-resource-allocation/controller, 0.26 to 0.31.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kubeskew.apimachinery.objects import Object


class DriverError(Exception):
    """A driver could not do what it was asked; the text becomes an event, and the work is done again."""


@dataclass(slots=True)
class ClaimAllocation:
    """One claim of a pod, or an immediate one. The driver fills in the last three."""

    entry: str  # in the pod's spec.resourceClaims; empty for an immediate claim
    claim: Object
    resource_class: Object | None  # None in 1.31, where a claim may have several
    class_parameters: Any = None
    claim_parameters: Any = None
    unsuitable_nodes: list[str] = field(default_factory=list)
    allocation: Object | None = None
    error: str = ""


class Driver(Protocol):
    """Does what only the driver can. All calls may be repeated: each must be idempotent."""

    async def class_parameters(self, resource_class: Object) -> Any:
        """Returns what the class's `parametersRef` means to the driver. Raises DriverError."""
        ...

    async def claim_parameters(self, claim: Object, resource_class: Object, class_parameters: Any) -> Any:
        """Returns what the claim's `parametersRef` means to the driver. Raises DriverError."""
        ...

    async def allocate(self, claims: Sequence[ClaimAllocation], node: str) -> None:
        """Fills in `allocation` or `error` of each; `node` is empty for an immediate claim.

        Raises DriverError if nothing can be allocated.
        """
        ...

    async def deallocate(self, claim: Object) -> None:
        """Frees what the claim has, or what was begun for it. Raises DriverError."""
        ...

    async def unsuitable_nodes(
        self, pod: Object, claims: Sequence[ClaimAllocation], nodes: Sequence[str]
    ) -> None:
        """Fills in `unsuitable_nodes` of each. Raises DriverError."""
        ...
