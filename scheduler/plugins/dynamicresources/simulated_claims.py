"""Keeps a copy of claims for a simulation, whose changes can be undone, and finds fictional nodes."""

from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.claims import display
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.node_slices import slices_node
from kubeskew.scheduler.framework.undoing import UndoLog
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import ClaimTracker


class SimulatedClaims(UndoLog):
    """Changes `claims`, which is a copy, and the nodes that Filter has seen."""

    def __init__(self, claims: ClaimTracker) -> None:
        super().__init__()
        self._claims = claims
        self._detected: set[str] = set()

    def write(self, claim: Object) -> None:
        """Adds or replaces a claim."""
        metadata = claim["metadata"]
        before = self._claims.get(metadata.get("namespace", ""), metadata["name"])
        self._claims.put(claim)
        if before is None:
            self.undo_by(lambda: self._claims.drop(claim))
        else:
            self.undo_by(lambda: self._claims.put(before))

    def remove(self, claim: Object) -> None:
        self._claims.drop(claim)
        self.undo_by(lambda: self._claims.put(claim))

    def origin_of_new(self, node: NodeInfo) -> str:
        """Returns whose slices a node uses that has not been seen before; "" for others and real nodes."""
        name = node.name
        if name in self._detected:
            return ""
        self._detected.add(name)
        self.undo_by(lambda: self._detected.discard(name))
        origin = slices_node(node.node)
        return origin if origin != name else ""


def driver_allocates(claim: Object) -> str:
    """Returns the reason against pods whose claims no simulation can allocate."""
    return (
        f"resourceclaim {display(claim)} is allocated by the controller of its driver, "
        "which cannot be simulated"
    )
