"""Says why a node is not ready because of its container runtime, in the words of upstream's kubelet.

Source: pkg/kubelet/runtime.go, kubelet.go (updateRuntimeUp), pleg/generic.go (Healthy) and
container/runtime.go, 1.31 to 1.36.
"""

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.go_formats import SECOND, duration_text
from kubeskew.kubelet.containers.runtime_service import RuntimeHandler, RuntimeStatus
from kubeskew.kubelet.protocols.messages import cri_v1_pb2 as messages

STATUS_SECONDS = 5.0  # between two questions
_DOWN_SECONDS = 30.0  # maxWaitForContainerRuntime
_RUNTIME, _NETWORK = "RuntimeReady", "NetworkReady"
_MILLISECOND = SECOND // 1000


class RuntimeState:
    """The state of one node's runtime."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._well_at: float | None = None  # monotonic
        self._runtime = ""
        self._network = "network state unknown"

    def noted(self, status: messages.RuntimeStatus) -> None:
        """Takes an answer of the runtime's about itself."""
        self._network = _text(status, _NETWORK, "container runtime network not ready: ")
        self._runtime = _text(status, _RUNTIME, "container runtime not ready: ")
        if not self._runtime:
            self._well_at = self._clock.monotonic()

    def problem(self, relisted_at: float | None, threshold: float) -> str:
        """`relisted_at` is when pods were last listed, which has to be within `threshold` seconds."""
        now = self._clock.monotonic()
        found = []
        if self._well_at is None:
            found.append("container runtime status check may not have completed yet")
        elif now - self._well_at >= _DOWN_SECONDS:
            found.append("container runtime is down")
        if relisted_at is None:
            found.append("PLEG is not healthy: pleg has yet to be successful")
        elif now - relisted_at > threshold:
            ago = duration_text(round((now - relisted_at) * 1000) * _MILLISECOND)
            limit = duration_text(int(threshold) * SECOND)
            found.append(f"PLEG is not healthy: pleg was last seen active {ago} ago; threshold is {limit}")
        found += [text for text in (self._runtime, self._network) if text]
        return found[0] if len(found) == 1 else f"[{', '.join(found)}]" if found else ""


def runtime_status(answer: messages.StatusResponse) -> RuntimeStatus:
    """Reads a runtime's handlers and features (kuberuntime/helpers.go, toKubeRuntimeStatus)."""
    handlers = tuple(
        RuntimeHandler(each.name, each.features.recursive_read_only_mounts, each.features.user_namespaces)
        for each in answer.runtime_handlers
    )
    groups = answer.features.supplemental_groups_policy if answer.HasField("features") else None
    return RuntimeStatus(handlers, supplemental_groups_policy=groups)


def _text(status: messages.RuntimeStatus, kind: str, before: str) -> str:
    """Empty if the condition holds."""
    condition = next((each for each in status.conditions if each.type == kind), None)
    if condition is None:
        return f"{before}<nil>"
    if condition.status:
        return ""
    return f"{before}{kind}=false reason:{condition.reason} message:{condition.message}"
