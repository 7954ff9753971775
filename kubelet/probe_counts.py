"""The numbers of probes that a kubelet made, for its metrics."""


class ProbeCounts:
    """Counts the probes of a node's containers by their results, over all restarts of a container."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[tuple[str, str, str], int]] = {}  # by pod

    def count(self, pod_uid: str, container: str, kind: str, result: str) -> None:
        of_pod = self._counts.setdefault(pod_uid, {})
        of_pod[container, kind, result] = of_pod.get((container, kind, result), 0) + 1

    def of(self, pod_uid: str) -> dict[tuple[str, str, str], int]:
        """By (name of the container; startup, readiness or liveness; result)."""
        return self._counts.get(pod_uid, {})

    def forget(self, pod_uid: str) -> None:
        self._counts.pop(pod_uid, None)
