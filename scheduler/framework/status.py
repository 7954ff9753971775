"""The status that a plugin returns."""

from dataclasses import dataclass, replace
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
        """Returns whether the pod does not fit; false for errors."""
        return self.code in _REJECTIONS

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)

    def of(self, plugin: str) -> "Status":
        """Returns the status with `plugin` as its source (unless it names another one already)."""
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
