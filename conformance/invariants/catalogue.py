"""Lists the invariants, and creates them for a run."""

import functools

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.errors import GroupResource
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apimachinery.quota.claims import ClaimFacts, DeviceClasses
from kubeskew.apimachinery.quota.registry import Evaluators
from kubeskew.conformance.invariants.apiserver import (
    Measure,
    NoSilentFieldLoss,
    QuotaExact,
    ReadsAlike,
    ReadsGoForward,
    StoredReadable,
    UniqueAddress,
    unknown_fields,
    unreadable,
)
from kubeskew.conformance.invariants.components import AuthorisedAsMeant, ComponentStarts, NoCrash, OneLeader
from kubeskew.conformance.invariants.controllers import (
    ControllersSettle,
    CountedOnce,
    OwnNamespace,
    ReplicaBounds,
)
from kubeskew.conformance.invariants.deletion import DeletionCompletes, RightOwner, UidNotName
from kubeskew.conformance.invariants.devices import ClaimReleased, DeviceInside, DeviceOnce
from kubeskew.conformance.invariants.invariant import USUAL, Invariant, Tolerance
from kubeskew.conformance.invariants.placement import (
    BoundIsAdmitted,
    DeclaredEffect,
    PreemptionContract,
    SchedulableIsScheduled,
)
from kubeskew.conformance.invariants.pods import RunningUndisturbed
from kubeskew.controllers.resourcequota.controller import Listing, measure

_PODS = GroupResource("", "pods")
_CLAIMS = GroupResource("resource.k8s.io", "resourceclaims")
_DEVICE_CLASSES = GroupResource("resource.k8s.io", "deviceclasses")


def invariants(measured: Measure | None = None, tolerance: Tolerance = USUAL) -> list[Invariant]:
    """Instances are new, for one run, in the order of their codes."""
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
        OwnNamespace(),
        ReadsAlike(),
    ]
    return found


def measuring(gates: FeatureGates, clock: Clock) -> Measure:
    """Measures as a quota controller with these gates does that has seen all objects."""

    def measured(quota: Object, listing: Listing) -> dict[str, Quantity]:
        @functools.cache
        def pods(namespace: str) -> dict[str, Object]:
            return {pod["metadata"]["name"]: pod for pod in listing(_PODS, namespace) or ()}

        facts = ClaimFacts(
            lambda: DeviceClasses.of(listing(_DEVICE_CLASSES, "") or ()),
            lambda namespace, name: pods(namespace).get(name),
            lambda namespace: listing(_CLAIMS, namespace) or (),
        )
        return measure(quota, Evaluators(gates, clock, facts), listing)

    return measured
