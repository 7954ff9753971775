"""The resource claim controllers of all generations of DRA, with the releases that each is for.

Nothing else names those of earlier generations: one that is deleted is taken out here.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.features import Condition, always, preview, until
from kubeskew.controllers.resourceclaim.classic.controller import ClassicClaimController
from kubeskew.controllers.resourceclaim.controller import ResourceClaimController
from kubeskew.controllers.resourceclaim.drafted.controller import DraftedClaimController
from kubeskew.controllers.resourceclaim.semantic.controller import SemanticClaimController

EARLIER: tuple[tuple[type[ResourceClaimController], Condition], ...] = (
    (DraftedClaimController, preview("kep3063")),
    (SemanticClaimController, preview("kep4381")),
    (ClassicClaimController, until(31)),
)


def claim_controllers() -> Iterator[tuple[type[ResourceClaimController], Condition]]:
    """One condition holds in each release: that of the first earlier generation that it is of, or today's."""
    others: Condition = always(True)
    for controller, condition in EARLIER:
        yield controller, others & condition
        others = others & ~condition
    yield ResourceClaimController, others
