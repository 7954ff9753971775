"""Notes which webhooks or policies are to be called once more for one write.

Source: k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/reinvocationcontext.go, 1.36.
"""

from dataclasses import dataclass, field

from kubeskew.apimachinery.objects import Object


@dataclass(slots=True)
class ReinvokeContext:
    """Holds those that want another call if others change the object, and those that are due."""

    eligible: set[str] = field(default_factory=set)
    due: set[str] = field(default_factory=set)
    last: Object | None = None  # as the last round left the object

    def require(self) -> None:
        """Marks all that are eligible so far to be called again."""
        self.due |= self.eligible
        self.eligible.clear()
