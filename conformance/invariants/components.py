"""Judges components: I11 component-starts, I14 no-crash, I17 authorised-as-meant, I19 one-leader."""

from collections.abc import Iterator
from datetime import timedelta

from kubeskew.apimachinery.clock import parse_timestamp
from kubeskew.conformance.invariants.cluster import Change, Cluster, named
from kubeskew.conformance.invariants.invariant import USUAL, Evidence, LivenessInvariant, Tolerance

LEASES = "leases.coordination.k8s.io"
# The leases of components, and what holds them.
_PEOPLE = ("kubeskew", "kubectl")  # a lease that is written by hand is taken on purpose
_ELECTIONS = {"kube-scheduler": "scheduler", "kube-controller-manager": "controller-manager"}


class ComponentStarts(LivenessInvariant):
    """I11: a component starts on what any version inside the supported skew left behind."""

    code = "I11"
    name = "component-starts"

    def at_end(self, cluster: Cluster, evidence: Evidence, *, at_rest: bool) -> Iterator[str]:
        for failure in evidence.failures:
            if failure.at_start:
                yield f"{failure.component} does not start: {failure.message}"


class NoCrash(LivenessInvariant):
    """I14: no component ends or hangs by itself."""

    code = "I14"
    name = "no-crash"

    def at_end(self, cluster: Cluster, evidence: Evidence, *, at_rest: bool) -> Iterator[str]:
        for failure in evidence.failures:
            if not failure.at_start:
                yield f"{failure.component} ended by itself: {failure.message}"


class AuthorisedAsMeant(LivenessInvariant):
    """I17: no component is refused what it needs."""

    code = "I17"
    name = "authorised-as-meant"

    def at_end(self, cluster: Cluster, evidence: Evidence, *, at_rest: bool) -> Iterator[str]:
        for component, refused in sorted(evidence.refusals.items()):
            for request in refused:
                yield f"{component} was refused: {request}"


class OneLeader:
    """I19: a lease passes on only when it has ended or was given back, and somebody holds it."""

    code = "I19"
    name = "one-leader"

    def __init__(self, tolerance: Tolerance = USUAL) -> None:
        self._skew = tolerance.clock_skew

    def see(self, change: Change, cluster: Cluster) -> Iterator[str]:
        if change.write.resource != LEASES or change.before is None or change.now is None:
            return
        old, new = change.before.get("spec") or {}, change.now.get("spec") or {}
        if change.write.by.startswith(_PEOPLE):
            return
        holder, other = old.get("holderIdentity"), new.get("holderIdentity")
        if not holder or not other or holder == other or not old.get("renewTime"):
            return
        ends = parse_timestamp(old["renewTime"]) + timedelta(
            seconds=int(old.get("leaseDurationSeconds") or 0)
        )
        if ends > parse_timestamp(change.write.time) + self._skew:
            yield f"{change.text} passed from {holder} to {other} before it ended at {ends.isoformat()}"

    def at_end(self, cluster: Cluster, evidence: Evidence, *, at_rest: bool) -> Iterator[str]:
        if not at_rest:
            return
        for name, component in sorted(_ELECTIONS.items()):
            lease = cluster.get(LEASES, "kube-system", name)
            if (
                lease is not None
                and cluster.running(component)
                and not (lease.get("spec") or {}).get("holderIdentity")
            ):
                yield f"{named(lease)} is held by nobody although the {component} runs"
