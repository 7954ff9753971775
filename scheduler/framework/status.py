"""The status that a plugin returns, and the reasons why a pod fits no node, in kube-scheduler's words.

Source: k8s.io/kubernetes/pkg/scheduler/framework/types.go, FitError, 1.36.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum


class Code(StrEnum):
    """The kind of a status; values are upstream's, as metrics show them."""

    SUCCESS = "Success"
    ERROR = "Error"  # an unexpected failure: the attempt ends, the pod is retried
    UNSCHEDULABLE = "Unschedulable"  # preemption may help
    UNRESOLVABLE = "UnschedulableAndUnresolvable"  # preemption cannot help
    PENDING = "Pending"  # waits for something outside; retried without backoff
    SKIP = "Skip"  # this plugin has nothing to do for the pod


@dataclass(frozen=True, slots=True)
class Status:
    """A plugin's answer, with the reasons that people see; the caller fills in `plugin`."""

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def is_success(self) -> bool:
        return self.code is Code.SUCCESS

    @property
    def is_skip(self) -> bool:
        return self.code is Code.SKIP

    @property
    def is_rejected(self) -> bool:
        return self.code in _REJECTIONS

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)

    def of(self, plugin: str) -> "Status":
        """Sets `plugin` as the source, unless the status names another one already."""
        return self if self.plugin else replace(self, plugin=plugin)


_REJECTIONS = frozenset({Code.UNSCHEDULABLE, Code.UNRESOLVABLE, Code.PENDING})

SUCCESS = Status(Code.SUCCESS)
SKIP = Status(Code.SKIP)


def unschedulable(*reasons: str) -> Status:
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    return Status(Code.UNRESOLVABLE, reasons)


def failed(reason: object) -> Status:
    return Status(Code.ERROR, (str(reason),))


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
        """`0/3 nodes are available: 3 Insufficient cpu. preemption: …`.

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
