"""Says which points of a control plane a run has reached: where it was hurt, in which order things came."""

from collections.abc import Iterator, Sequence

from kubeskew.apimachinery.component_names import kind_of
from kubeskew.conformance.evidence.log import ComponentChange, Logged, Write
from kubeskew.conformance.invariants.settling import is_heartbeat
from kubeskew.simulation.faults.plan import Plan

_FIRED = "fault-fired"


def points_of(log: Sequence[Logged], plan: Plan) -> Sequence[str]:
    """Returns the points, each once, in the order in which they were reached."""
    return [*dict.fromkeys([*_hurt(log, plan), *_orders(log)])]


def _hurt(log: Sequence[Logged], plan: Plan) -> Iterator[str]:
    """Yields what each fault that fired met: `crash: scheduler after update resourceclaims/status`."""
    faults = {fault.name: fault for fault in plan.faults}
    for entry in log:
        if not isinstance(entry, ComponentChange) or entry.what != _FIRED:
            continue
        name, _, rest = entry.detail.partition(": ")
        fault = faults.get(name)
        if fault is not None:
            effect, _, call = rest.partition(": ")
            met = " ".join(call.split(" (call ")[0].split(" ")[: _words(call)])
            place = effect.removeprefix(f"{fault.kind} ")
            yield f"{fault.kind}: {kind_of(entry.component)} {place} {met}".rstrip()


def _words(call: str) -> int:
    """Returns how many words of a call say its kind; what comes after them names the object."""
    return 4 if " event of " in call else 3 if call.startswith("commit: ") else 2


def _orders(log: Sequence[Logged]) -> Iterator[str]:
    """Yields who wrote an object after whom: `order: pods: kube-scheduler update > kubelet update`."""
    last: dict[tuple[str, str, str], str] = {}
    for entry in log:
        if not isinstance(entry, Write) or is_heartbeat(entry):
            continue
        place = entry.resource, entry.namespace, entry.name
        writer = kind_of(entry.by.partition(" ")[0])
        step = f"{writer} {entry.verb}"
        if place in last:
            yield f"order: {entry.resource}: {last[place]} > {step}"
        last[place] = step
