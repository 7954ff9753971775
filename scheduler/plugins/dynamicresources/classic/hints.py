"""Events that may help a pod whose claims drivers allocate, with their hints.

Source: pkg/scheduler/framework/plugins/dynamicresources, 1.26 to 1.31 (EventsToRegister). Hints exist since
1.28, and are asked only with the gate SchedulerQueueingHints.
"""

from collections.abc import Callable, Sequence
from functools import partial

from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.claims import ClaimNotUsable, allocation
from kubeskew.scheduler.framework.events import Action, ClusterEvent, EventHint, EventResource, Hint
from kubeskew.scheduler.plugins.dynamicresources.classic.claims import NamedClaim
from kubeskew.scheduler.plugins.dynamicresources.classic.features import ClassicFeatures
from kubeskew.scheduler.plugins.dynamicresources.classic.negotiation import entries
from kubeskew.scheduler.plugins.dynamicresources.classic.scheduler_allocation import OwnAllocation, refers_to

NamedClaims = Callable[[Object], Sequence[NamedClaim]]
GetClass = Callable[[str], Object | None]
AwaitsDriver = Callable[[Object], bool]

_CHANGED = Action.ADD | Action.UPDATE


def hints(
    claims_of: NamedClaims, get_class: GetClass, features: ClassicFeatures, own: OwnAllocation | None
) -> Sequence[EventHint]:
    """`claims_of` returns the claims of a pod or raises ClaimNotUsable; `own` allocates some of them."""
    node = Action.ADD | Action.UPDATE_NODE_LABEL
    if features.taint_events:
        node |= Action.UPDATE_NODE_TAINT
    # A claim that is deleted by force leaves its resources to others.
    claim = _CHANGED if own is None else _CHANGED | Action.DELETE
    events = [
        EventHint(ClusterEvent(EventResource.RESOURCE_CLAIM, claim), _after_claim(claims_of, features, own)),
        context_hint(claims_of, _is_delayed if own is None else partial(_awaits_driver, get_class, own)),
        EventHint(ClusterEvent(EventResource.NODE, node)),
    ]
    if features.class_events:
        events.append(EventHint(ClusterEvent(EventResource.RESOURCE_CLASS, _CHANGED)))
    if features.pre_enqueue:
        generated = ClusterEvent(EventResource.UNSCHEDULED_POD, Action.UPDATE_POD_GENERATED_CLAIM)
        events.append(EventHint(generated, _after_pod(claims_of)))
    if features.named_resources:
        of_claims, of_classes = _of_claims(claims_of), _of_classes(claims_of, get_class)
        claim_parameters = ClusterEvent(EventResource.RESOURCE_CLAIM_PARAMETERS, _CHANGED)
        class_parameters = ClusterEvent(EventResource.RESOURCE_CLASS_PARAMETERS, _CHANGED)
        events += [EventHint(claim_parameters, of_claims), EventHint(class_parameters, of_classes)]
    if own is not None:
        events += own.hints(partial(_claims_alone, claims_of), get_class)
    return events


def context_hint(claims_of: NamedClaims, awaits: AwaitsDriver | None = None) -> EventHint:
    """Drivers answer in these objects; `awaits` decides for which claims they do."""
    event = ClusterEvent(EventResource.POD_SCHEDULING_CONTEXT, _CHANGED)
    return EventHint(event, _after_context(claims_of, awaits or _is_delayed))


def _after_pod(claims_of: NamedClaims) -> Hint:
    def hint(pod: Object, old: Object | None, new: Object | None) -> bool:  # noqa: ARG001 - a Hint
        same = new is not None and new["metadata"].get("uid") == pod["metadata"].get("uid")
        return same and new is not None and _claims(claims_of, new) is not None

    return hint


def _after_claim(claims_of: NamedClaims, features: ClassicFeatures, own: OwnAllocation | None) -> Hint:
    def hint(pod: Object, old: Object | None, new: Object | None) -> bool:
        freed = old is not None and allocation(old) and (new is None or not allocation(new))
        if old is not None and freed and _is_allocated_here(old, features, own):
            return True  # its resources are free for all pods
        if new is None:
            return False
        used = _claims(claims_of, pod) or []
        if all(named.claim["metadata"].get("uid") != new["metadata"].get("uid") for named in used):
            return False
        return old is None or old.get("status") != new.get("status")

    return hint


def _is_allocated_here(claim: Object, features: ClassicFeatures, own: OwnAllocation | None) -> bool:
    """Force may have taken the scheduler's finalizer from a claim that it allocated."""
    if own is not None and own.has_allocated(claim):
        return True
    return bool(features.finalizer) and features.finalizer in (claim["metadata"].get("finalizers") or ())


def _after_context(claims_of: NamedClaims, awaits: AwaitsDriver) -> Hint:
    def hint(pod: Object, old: Object | None, new: Object | None) -> bool:
        if new is None or not _is_of(pod, new):
            return False
        unsuitable = {entry["name"]: entry.get("unsuitableNodes") or () for entry in entries(new)}
        used = _claims(claims_of, pod)
        if used is None:
            return False
        pending = [named for named in used if allocation(named.claim) is None and awaits(named.claim)]
        if any(named.entry not in unsuitable for named in pending):
            return False  # not all drivers have answered
        if old is None or len(entries(old)) < len(unsuitable):
            return True
        selected = (new.get("spec") or {}).get("selectedNode")
        if selected and any(selected in nodes for nodes in unsuitable.values()):
            return True
        only_spec = old.get("spec") != new.get("spec") and old.get("status") == new.get("status")
        return not only_spec

    return hint


def _is_delayed(claim: Object) -> bool:
    spec = claim["spec"]
    return bool(spec.get("allocationMode") == "WaitForFirstConsumer" or spec.get("controller"))


def _awaits_driver(get_class: GetClass, own: OwnAllocation, claim: Object) -> bool:
    """No driver answers for claims that the scheduler allocates itself; 1.30 waits for them in vain."""
    resource_class = get_class(claim["spec"].get("resourceClassName") or "")
    return _is_delayed(claim) and not own.allocates(resource_class or {})


def _is_of(pod: Object, context: Object) -> bool:
    keys = ("namespace", "name")
    return all(pod["metadata"].get(key) == context["metadata"].get(key) for key in keys)


def _claims(claims_of: NamedClaims, pod: Object) -> Sequence[NamedClaim] | None:
    """None if one of the pod's claims is missing or unusable."""
    try:
        return claims_of(pod)
    except ClaimNotUsable:
        return None


def _claims_alone(claims_of: NamedClaims, pod: Object) -> Sequence[Object] | None:
    named = _claims(claims_of, pod)
    return None if named is None else [claim.claim for claim in named]


def _of_claims(claims_of: NamedClaims) -> Hint:
    def hint(pod: Object, old: Object | None, new: Object | None) -> bool:
        if new is None or (old is not None and old.get("driverRequests") == new.get("driverRequests")):
            return False
        return any(
            refers_to(named.claim["spec"].get("parametersRef"), new, "ResourceClaimParameters")
            for named in _claims(claims_of, pod) or ()
        )

    return hint


def _of_classes(claims_of: NamedClaims, get_class: GetClass) -> Hint:
    def hint(pod: Object, old: Object | None, new: Object | None) -> bool:
        if new is None or (old is not None and old.get("filters") == new.get("filters")):
            return False
        classes = [
            get_class(named.claim["spec"].get("resourceClassName", ""))
            for named in _claims(claims_of, pod) or ()
        ]
        return any(
            refers_to(found.get("parametersRef"), new, "ResourceClassParameters")
            for found in classes
            if found is not None
        )

    return hint
