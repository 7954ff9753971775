"""Topology spread constraints: parses them, adds defaults, and finds the nodes that they concern.

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread/common.go and plugin.go, 1.36.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kubeskew.apimachinery.client.refs import REPLICA_SETS, REPLICATION_CONTROLLERS, SERVICES, STATEFUL_SETS
from kubeskew.apimachinery.objects import ObjectView
from kubeskew.apimachinery.selectors import node_affinity
from kubeskew.apimachinery.selectors.labels import NOTHING, LabelSelector, Requirement, SelectorError
from kubeskew.scheduler.features.scheduler import SchedulerFeatures
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.handle import Handle
from kubeskew.scheduler.taints import untolerated

HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
HOSTNAME = "kubernetes.io/hostname"
SYSTEM_DEFAULTS: Sequence[ObjectView] = (
    {"topologyKey": HOSTNAME, "whenUnsatisfiable": SOFT, "maxSkew": 3},
    {"topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": SOFT, "maxSkew": 5},
)


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint with its selector."""

    topology_key: str
    max_skew: int
    selector: LabelSelector
    key: str  # key of the counts that nodes keep
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False

    def is_about(self, pod: PodInfo, node: NodeInfo) -> bool:
        """Returns whether the node's pods count for the pod, by `nodeAffinityPolicy` and
        `nodeTaintsPolicy`."""
        if self.honors_affinity and not node_affinity.fits(pod.spec, node.labels, node.name):
            return False
        tolerations = pod.spec.get("tolerations") or ()
        return not self.honors_taints or untolerated(node.taints, tolerations) is None

    def takes_all_nodes(self, pod: PodInfo) -> bool:
        """Returns whether `is_about` is true for every node."""
        spec = pod.spec
        restricted = spec.get("nodeSelector") or node_affinity.required(spec) is not None
        return not self.honors_taints and not (self.honors_affinity and restricted)

    def counter(self, namespace: str) -> Callable[[NodeInfo], int]:
        """Returns a function that counts the selected pods of the namespace on a node, without terminating
        ones."""
        key = (self.key, namespace)

        def count(node: NodeInfo) -> int:
            known: int | None = node.memo.get(key)
            if known is None:
                known = node.memo[key] = self._count(namespace, node)
            return known

        return count

    def _count(self, namespace: str, node: NodeInfo) -> int:
        if self.selector.is_empty():
            return 0
        return sum(
            1
            for pod in node.pods.values()
            if pod.namespace == namespace
            and not pod.pod["metadata"].get("deletionTimestamp")
            and self.selector.matches(pod.labels)
        )


def has_all_keys(labels: Mapping[str, str], constraints: Iterable[Constraint]) -> bool:
    return all(constraint.topology_key in labels for constraint in constraints)


class Constraints:
    """Finds a pod's constraints: its own, or the default ones if it has none."""

    def __init__(self, handle: Handle, args: ObjectView) -> None:
        """`args` are PodTopologySpreadArgs."""
        self._features: SchedulerFeatures = handle.features
        self.system_defaulted = (args.get("defaultingType") or "System") == "System"
        self._defaults = SYSTEM_DEFAULTS if self.system_defaulted else args.get("defaultConstraints") or ()
        self._services = handle.informer(SERVICES)
        self._controllers = {
            ref.kind: handle.informer(ref) for ref in (REPLICATION_CONTROLLERS, REPLICA_SETS, STATEFUL_SETS)
        }

    def of(self, pod: PodInfo, action: str) -> Sequence[Constraint]:
        """Returns the constraints with this `whenUnsatisfiable`."""
        own = pod.spec.get("topologySpreadConstraints")
        if own:
            return [self._own(pod, entry) for entry in own if entry["whenUnsatisfiable"] == action]
        defaults = [entry for entry in self._defaults if entry["whenUnsatisfiable"] == action]
        if not defaults:
            return ()
        selector = self.default_selector(pod)
        if selector.is_empty():
            return ()
        return [self._made(entry, selector) for entry in defaults]

    def _own(self, pod: PodInfo, constraint: ObjectView) -> Constraint:
        try:
            selector = LabelSelector.from_object(constraint.get("labelSelector"))
        except SelectorError:
            selector = NOTHING
        if self._features.match_label_keys and constraint.get("matchLabelKeys"):
            same = {key: pod.labels[key] for key in constraint["matchLabelKeys"] if key in pod.labels}
            if same and selector.selectable:
                more = LabelSelector.from_labels(same)
                selector = LabelSelector((*selector.requirements, *more.requirements))
        return self._made(constraint, selector)

    def _made(self, constraint: ObjectView, selector: LabelSelector) -> Constraint:
        features = self._features
        policies = features.node_inclusion_policy
        return Constraint(
            constraint["topologyKey"],
            constraint["maxSkew"],
            selector,
            str(selector) if selector.selectable else "nothing!",
            (constraint.get("minDomains") or 1) if features.min_domains else 1,
            not policies or (constraint.get("nodeAffinityPolicy") or "Honor") == "Honor",
            policies and constraint.get("nodeTaintsPolicy") == "Honor",
        )

    def default_selector(self, pod: PodInfo) -> LabelSelector:
        """Returns the selector of the pod's siblings: of its services and its controller."""
        same: dict[str, str] = {}
        for service in self._services.list(pod.namespace):
            selector = (service.get("spec") or {}).get("selector")
            if selector and all(pod.labels.get(key) == value for key, value in selector.items()):
                same |= selector
        owner = next(
            (
                reference
                for reference in pod.pod["metadata"].get("ownerReferences") or ()
                if reference.get("controller")
            ),
            None,
        )
        informer = self._controllers.get(owner["kind"]) if owner is not None else None
        found = informer.get(pod.namespace, owner["name"]) if informer is not None and owner else None
        more: tuple[Requirement, ...] = ()
        if found is not None and owner is not None and _is(found, owner):
            selector = (found.get("spec") or {}).get("selector") or {}
            if owner["kind"] == REPLICATION_CONTROLLERS.kind:
                same |= selector
            else:
                more = LabelSelector.from_object(selector).requirements
        return LabelSelector((*LabelSelector.from_labels(same).requirements, *more))


def _is(found: ObjectView, owner: ObjectView) -> bool:
    return bool(found["metadata"].get("uid") == owner.get("uid"))
