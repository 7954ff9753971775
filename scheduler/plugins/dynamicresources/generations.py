"""The generations of DRA that a scheduler may be of, each in a room of its own.

Structured parameters are the base: the modules of this folder. Classic DRA, in which drivers allocate
(`classic/`), and the two previews (`drafted.py` of KEP-3063, `semantic/` of KEP-4381) are named here alone. A
room goes by deleting it, its lines here and its entry in `kubeskew features`; the previews build on classic
DRA.
"""

from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.features import FeatureTable, gate, preview, until
from kubeskew.scheduler.features import SchedulerFeatures
from kubeskew.scheduler.plugins.dynamicresources.classic.dra_manager import ClassicState
from kubeskew.scheduler.plugins.dynamicresources.classic.driver_allocation import ControllersOfDrivers
from kubeskew.scheduler.plugins.dynamicresources.classic.features import ClassicFeatures
from kubeskew.scheduler.plugins.dynamicresources.dra_manager import DynamicState
from kubeskew.scheduler.plugins.dynamicresources.drafted import DraftedState
from kubeskew.scheduler.plugins.dynamicresources.semantic.dra_manager import SemanticState

AnyState = DynamicState | ClassicState | DraftedState


class Generations(FeatureTable):
    """The rooms that a release needs besides the base, or in its place."""

    # Drivers' controllers allocate; in 1.31 next to the scheduler, before in its place.
    drivers_allocate: bool = (
        gate("DynamicResourceAllocation") & until(31) & (until(30) | gate("DRAControlPlaneController"))
    )
    drafted: bool = preview("kep3063")
    semantic: bool = preview("kep4381")


def dynamic_state(environment: Environment, features: SchedulerFeatures) -> AnyState:
    """The state of claims that a scheduler keeps, of the generation of its release."""
    gates = environment.gates
    generations = Generations.of(gates)
    if not generations.drivers_allocate:
        return DynamicState(environment, features)
    classic = ClassicFeatures.of(gates)
    if features.devices:
        return DynamicState(environment, features, ControllersOfDrivers(environment, classic))
    if generations.drafted:
        return DraftedState(environment, features, classic)
    own = SemanticState(environment, classic.finalizer) if generations.semantic else None
    return ClassicState(environment, features, classic, own)
