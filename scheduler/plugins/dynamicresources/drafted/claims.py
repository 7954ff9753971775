"""Reads claims of cdi.k8s.io, and remembers those of a pod during one attempt.

Source: KEP-3063 as drafted, section API.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubeskew.apimachinery.claim_users import reserved_for
from kubeskew.apimachinery.objects import Object

ALLOCATED, REALLOCATE = "Allocated", "Reallocate"
_UNLIMITED = -1


@dataclass(slots=True)
class DraftedClaim:
    """A claim of the pod, as it was last read or written."""

    claim: Object

    @property
    def status(self) -> Object:
        found: Object = self.claim.get("status") or {}
        return found

    @property
    def _scheduling(self) -> Object:
        return self.status.get("scheduling") or {}

    @property
    def is_pending(self) -> bool:
        """Returns whether the driver is to allocate it."""
        return self.status.get("phase") not in (ALLOCATED, REALLOCATE)

    @property
    def is_being_freed(self) -> bool:
        return self.status.get("phase") == REALLOCATE

    @property
    def is_immediate(self) -> bool:
        return bool(self.claim["spec"].get("allocationMode") == "Immediate")

    @property
    def class_name(self) -> str:
        return str(self.claim["spec"].get("resourceClassName") or "")

    @property
    def available_on(self) -> Mapping[str, Any] | None:
        """Returns the selector of nodes where the claim can be used, or had; None is everywhere."""
        found: Mapping[str, Any] | None = (self._scheduling.get("driver") or {}).get("availableOnNodes")
        return found

    @property
    def unsuitable_nodes(self) -> Sequence[str]:
        """Returns the nodes for which the driver cannot allocate it, as far as it has said so."""
        return (self._scheduling.get("driver") or {}).get("unsuitableNodes") or ()

    @property
    def selected_node(self) -> str:
        return str((self._scheduling.get("scheduler") or {}).get("selectedNode") or "")

    @property
    def potential_nodes(self) -> Sequence[str]:
        return (self._scheduling.get("scheduler") or {}).get("potentialNodes") or ()

    def is_reserved_for(self, uid: str) -> bool:
        return any(user.get("uid") == uid for user in reserved_for(self.claim))

    @property
    def can_be_reserved(self) -> bool:
        """Returns whether it may have one more user."""
        limit: int = self.status.get("userLimit", 1)
        return limit == _UNLIMITED or len(reserved_for(self.claim)) < limit

    def is_unused_but_by(self, uid: str) -> bool:
        return all(user.get("uid") == uid for user in reserved_for(self.claim))


@dataclass(slots=True)
class DraftedClaims:
    """The claims of a pod, in the order of its spec."""

    claims: list[DraftedClaim]
    nodes: list[str] | None = (
        None  # that fit the pod; None before PreScore, which one node alone does not need
    )
    told: bool = False  # whether Reserve has told the drivers
    unavailable: dict[int, None] = field(default_factory=dict)  # claims that kept the pod from some node

    @property
    def pending(self) -> list[DraftedClaim]:
        return [claim for claim in self.claims if claim.is_pending]
