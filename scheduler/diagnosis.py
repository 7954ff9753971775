"""Words the reasons why a pod fits no node, as kube-scheduler does.

Source: k8s.io/kubernetes/pkg/scheduler/framework/types.go, FitError, 1.36.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from kubeskew.scheduler.framework.status import Status


@dataclass(slots=True)
class Diagnosis:
    """Collects the answers of nodes, PreFilter and PostFilter."""

    nodes: int
    rejected: Mapping[str, Status] = field(default_factory=dict)
    pre_filter: str = ""
    post_filter: str = ""
    plugins: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)

    def message(self, *, double_full_stop: bool = False) -> str:
        """Returns `0/3 nodes are available: 3 Insufficient cpu. preemption: …`.

        `double_full_stop` adds one after PostFilter's text, which ends with one already.
        """
        text = f"0/{self.nodes} nodes are available:"
        if self.pre_filter:
            text += f" {self.pre_filter}."
        else:
            reasons = Counter(reason for status in self.rejected.values() for reason in status.reasons)
            if reasons:
                listed = sorted(f"{count} {reason}" for reason, count in reasons.items())
                text += f" {', '.join(listed)}."
        if not self.post_filter:
            return text
        return f"{text} {self.post_filter}{'.' if double_full_stop else ''}"
