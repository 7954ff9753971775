"""Lists the invariants, and makes them for a run."""

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apimachinery.quota.registry import Evaluators
from kubeskew.controllers.resourcequota.measuring import Listing, measure
from kubeskew.simulation.invariants.addresses import UniqueAddress
from kubeskew.simulation.invariants.components import AuthorisedAsMeant, ComponentStarts, NoCrash, OneLeader
from kubeskew.simulation.invariants.deletion import DeletionCompletes, RightOwner, UidNotName
from kubeskew.simulation.invariants.devices import ClaimReleased, DeviceOnce
from kubeskew.simulation.invariants.fields import unknown_fields, unreadable
from kubeskew.simulation.invariants.invariant import Invariant
from kubeskew.simulation.invariants.placing import (
    BoundIsAdmitted,
    DeclaredEffect,
    PreemptionContract,
    SchedulableIsScheduled,
)
from kubeskew.simulation.invariants.quotas import Measure, QuotaExact
from kubeskew.simulation.invariants.running import RunningUndisturbed
from kubeskew.simulation.invariants.settling import ControllersSettle
from kubeskew.simulation.invariants.stored import NoSilentFieldLoss, ReadsGoForward, StoredReadable
from kubeskew.simulation.invariants.tolerance import USUAL, Tolerance
from kubeskew.simulation.invariants.workloads import CountedOnce, ReplicaBounds

_DEVICE_CLASSES = "deviceclass.resource.k8s.io/"


def invariants(measured: Measure | None = None, tolerance: Tolerance = USUAL) -> list[Invariant]:
    """Returns all invariants, fresh for one run, in the order of their codes."""
    found: list[Invariant] = [
        DeviceOnce(),
        ClaimReleased(),
        DeletionCompletes(),
        SchedulableIsScheduled(),
        BoundIsAdmitted(),
        RunningUndisturbed(tolerance),
        ReplicaBounds(),
        CountedOnce(),
        QuotaExact(measured),
        StoredReadable(unreadable),
        ComponentStarts(),
        NoSilentFieldLoss(unknown_fields),
        ReadsGoForward(),
        NoCrash(),
        ControllersSettle(),
        RightOwner(),
        AuthorisedAsMeant(),
        UidNotName(),
        OneLeader(tolerance),
        UniqueAddress(),
        PreemptionContract(),
        DeclaredEffect(tolerance),
    ]
    return found


def measuring(gates: FeatureGates, clock: Clock) -> Measure:
    """Returns how a quota controller with these gates measures. Devices by class are left out: they need
    what its informers know of classes."""
    evaluators = Evaluators(gates, clock)

    def measured(quota: Object, listing: Listing) -> dict[str, Quantity]:
        found = measure(quota, evaluators, listing)
        return {name: quantity for name, quantity in found.items() if _DEVICE_CLASSES not in name}

    return measured
