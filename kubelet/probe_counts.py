"""The numbers of probes that a kubelet made, for its metrics."""


class ProbeCounts:
    """Counts the probes of a node's containers by their results."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[tuple[str, str], int]] = {}  # by container id

    def count(self, container: str, kind: str, result: str) -> None:
        of_container = self._counts.setdefault(container, {})
        of_container[kind, result] = of_container.get((kind, result), 0) + 1

    def of(self, container: str) -> dict[tuple[str, str], int]:
        """By (startup, readiness or liveness; result)."""
        return self._counts.get(container, {})

    def forget(self, container: str) -> None:
        self._counts.pop(container, None)
