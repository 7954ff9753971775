"""Finds how many nodes of which templates make pending pods fit. Among templates, the one that wastes the
smallest share of cpu and memory is chosen, the first of equal ones.

Each round is a loop of the autoscaler: pods that fit existing nodes are taken out, each template gets an
estimate, and the best one's nodes are added. Rounds end when none helps. Upstream the nodes of a round are
"upcoming" in the next one; here they are in the snapshot with the pods that the estimate put there.

Sources: cluster-autoscaler 1.35, expander/waste/waste.go (`--expander=least-waste`, the default); there a
random one of equal ones is chosen; cluster-autoscaler 1.35, core/scaleup/orchestrator,
core/podlistprocessor/filter_out_schedulable.go.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kubeskew.scheduler.autoscaling.estimator import (
    BinpackingNodeEstimator,
    Estimation,
    Groups,
    RejectedPods,
    groups,
)
from kubeskew.scheduler.autoscaling.snapshot import ClusterSnapshot, NodeTemplate
from kubeskew.scheduler.framework.pod_info import PodInfo, amounts

MOST_NODES = 1000  # --max-nodes-per-scaleup

Report = Callable[[str], None]

_REPORT_INTERVAL = 2000  # pods between two reports of the progress


class Option(NamedTuple):
    """A template, how many of its nodes would be added, and the pods that would get a node."""

    template: NodeTemplate
    nodes: int
    pods: Sequence[PodInfo]


def least_waste(options: Sequence[Option]) -> Option:
    """At least one option must be given."""
    return min(options, key=_wasted)


def _wasted(option: Option) -> float:
    capacity = amounts((option.template.node.get("status") or {}).get("capacity"))
    return sum(_share(option, capacity.get(name, 0), name) for name in ("cpu", "memory"))


def _share(option: Option, capacity: int, name: str) -> float:
    available = capacity * option.nodes
    requested = sum(pod.requests.get(name, 0) for pod in option.pods)
    return (available - requested) / available if available else 0.0


@dataclass(slots=True)
class Placement:
    """The answer: the nodes to add by template, where pods go, and why the others go nowhere."""

    nodes: dict[str, list[str]]
    placed: dict[str, tuple[PodInfo, str]] = field(default_factory=dict)  # by uid: pod, node
    rejected: list[tuple[PodInfo, list[str]]] = field(default_factory=list)

    def take(self, template: str, made: Estimation) -> None:
        self.nodes[template] += made.nodes
        for pod in made.pods:
            self.placed[pod.uid] = pod, made.placed[pod.uid]


class ScaleUp:
    def __init__(
        self,
        snapshot: ClusterSnapshot,
        templates: Sequence[NodeTemplate],
        report: Report,
        most: int = MOST_NODES,
    ) -> None:
        """`most` limits the nodes that are added of each template; `report` receives messages of the
        progress."""
        self._snapshot = snapshot
        self._templates = templates
        self._report = report
        self._most = most
        self._used = {node.name for node in snapshot.nodes()}

    def run(self, pods: Sequence[PodInfo]) -> Placement:
        """Places the pods in the snapshot. Raises SimulationError."""
        answer = Placement({template.name: [] for template in self._templates})
        gated, left = self._gated(pods)
        while left:
            left = self._place_on_existing(answer, left)
            grouped = groups(left)
            option = self._best(grouped, answer)
            if option is None:
                break
            made = self._add(grouped, option.template, answer)
            left = [pod for pod in left if pod.uid not in made.placed]
        answer.rejected = [*gated, *((pod, self._reasons(pod, answer)) for pod in left)]
        return answer

    def _gated(self, pods: Sequence[PodInfo]) -> tuple[list[tuple[PodInfo, list[str]]], list[PodInfo]]:
        """Pods that PreEnqueue plugins hold back, with reasons, and the others by priority, highest first."""
        gated, others = [], []
        for pod in pods:
            profile = self._snapshot.profiles[pod.scheduler_name]
            statuses = [plugin.pre_enqueue(pod) for plugin in profile.pre_enqueue]
            reasons = [reason for status in statuses if not status.is_success for reason in status.reasons]
            if reasons:
                gated.append((pod, reasons))
            else:
                others.append(pod)
        return gated, sorted(others, key=lambda pod: -pod.priority)

    def _place_on_existing(self, answer: Placement, pods: Sequence[PodInfo]) -> list[PodInfo]:
        """Pods that fit no existing node are returned."""
        rejected, left = RejectedPods(), []
        for tried, pod in enumerate(pods):
            if tried and not tried % _REPORT_INTERVAL:
                self._report(f"{tried} of {len(pods)} pods tried on the nodes that are there")
            node = None if rejected.has_like(pod) else self._snapshot.schedule_anywhere(pod, lambda _: True)
            if node is not None:
                answer.placed[pod.uid] = pod, node
            else:
                rejected.add(pod)
                left.append(pod)
        self._report(f"{len(left)} of {len(pods)} pods fit no node that is there")
        return left

    def _best(self, grouped: Groups, answer: Placement) -> Option | None:
        options = []
        for template in self._templates:
            self._snapshot.fork()
            made = self._estimate(self._schedulable(grouped, template, answer), template, answer)
            self._snapshot.revert()
            if made.nodes:
                options.append(Option(template, len(made.nodes), made.pods))
                self._report(f"{len(made.nodes)} of {template.name} would take {len(made.pods)} pods")
        return least_waste(options) if options else None

    def _add(self, grouped: Groups, template: NodeTemplate, answer: Placement) -> Estimation:
        fitting = self._schedulable(grouped, template, answer)
        made = self._estimate(fitting, template, answer)
        for name, used in made.new.items():
            if not used:
                self._snapshot.remove_node(name)
        answer.take(template.name, made)
        self._used.update(made.nodes)
        return made

    def _estimate(self, grouped: Groups, template: NodeTemplate, answer: Placement) -> Estimation:
        most = self._most - len(answer.nodes[template.name])
        return BinpackingNodeEstimator(self._snapshot, self._fresh_name, most).estimate(grouped, template)

    def _schedulable(self, grouped: Groups, template: NodeTemplate, answer: Placement) -> Groups:
        """Only the first pod of a group is tried, on an empty node of the template."""
        name = self._test_node(template)
        found = [group for group in grouped if self._snapshot.check(group[0], name).is_success]
        self._snapshot.revert()
        return found

    def _test_node(self, template: NodeTemplate) -> str:
        """Adds a node of the template in a fork of its own, and returns its name."""
        self._snapshot.fork()
        name = self._fresh_name(template, 0)
        self._snapshot.add_node(template.fresh_node(name), template.fresh_pods(name))
        return name

    def _fresh_name(self, template: NodeTemplate, number: int) -> str:
        """Joins the template's name and a number that no node has; `number` of these are skipped."""
        serial = 0
        while True:
            serial += 1
            name = f"{template.name}-{serial}"
            if name not in self._used:
                if not number:
                    return name
                number -= 1

    def _reasons(self, pod: PodInfo, answer: Placement) -> list[str]:
        """One reason covers all nodes that are there, and one each template."""
        reasons = [self._snapshot.diagnose(pod)] if self._snapshot.nodes() else []
        for template in self._templates:
            if len(answer.nodes[template.name]) >= self._most:
                reasons.append(f"{template.name}: no more than {self._most} nodes may be added")
                continue
            status = self._snapshot.check(pod, self._test_node(template))
            self._snapshot.revert()
            reasons.append(f"{template.name}: {status.message or 'the pod fits a node by itself'}")
        return reasons
