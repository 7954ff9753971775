"""Lists the invariants, and makes them for a run."""

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apimachinery.quota.registry import Evaluators
from kubeskew.conformance.invariants.addresses import UniqueAddress
from kubeskew.conformance.invariants.components import AuthorisedAsMeant, ComponentStarts, NoCrash, OneLeader
from kubeskew.conformance.invariants.deletion import DeletionCompletes, RightOwner, UidNotName
from kubeskew.conformance.invariants.devices import ClaimReleased, DeviceInside, DeviceOnce
from kubeskew.conformance.invariants.fields import unknown_fields, unreadable
from kubeskew.conformance.invariants.invariant import Invariant
from kubeskew.conformance.invariants.placing import (
    BoundIsAdmitted,
    DeclaredEffect,
    PreemptionContract,
    SchedulableIsScheduled,
)
from kubeskew.conformance.invariants.quotas import Measure, QuotaExact
from kubeskew.conformance.invariants.running import RunningUndisturbed
from kubeskew.conformance.invariants.settling import ControllersSettle
from kubeskew.conformance.invariants.stored import NoSilentFieldLoss, ReadsGoForward, StoredReadable
from kubeskew.conformance.invariants.tolerance import USUAL, Tolerance
from kubeskew.conformance.invariants.workloads import CountedOnce, ReplicaBounds
from kubeskew.controllers.resourcequota.measuring import Listing, measure

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
        DeviceInside(tolerance),
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
