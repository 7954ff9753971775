"""Counts what the Pod Security Standards decide (pod-security-admission/metrics/metrics.go, 1.36)."""

from kubeskew.apimachinery.metrics.series import Families, NumberSeries

_OPERATIONS = ("create", "update")
_Evaluation = tuple[str, tuple[str, str], tuple[str, str, str], bool]  # mode, level, where, whether allowed


class PolicyMetrics:
    """Counts evaluations by decision, mode and level; nothing is exempt here."""

    def __init__(self, families: Families) -> None:
        self._evaluations = families.counters(
            "pod_security_evaluations_total", "Evaluations of pods, by decision."
        )
        self._series: dict[_Evaluation, NumberSeries] = {}
        for operation in _OPERATIONS:
            self._evaluations.at(
                **_labels("allow", "enforce", ("privileged", "latest"), operation, "pod", "")
            )
        exemptions = families.counters("pod_security_exemptions_total", "Requests that are exempt.")
        for operation in _OPERATIONS:
            for resource in ("pod", "controller"):
                exemptions.at(request_operation=operation, resource=resource, subresource="")

    def evaluated(
        self, mode: str, level: tuple[str, str], where: tuple[str, str, str], *, allowed: bool
    ) -> None:
        """Counts a decision; `where` has the request's operation, storage resource and subresource."""
        evaluation = mode, level, where, allowed
        series = self._series.get(evaluation)
        if series is None:
            operation, resource, subresource = where
            known = {"pods": "pod", "namespaces": "namespace"}.get(resource, "controller")
            decision = "allow" if allowed else "deny"
            labels = _labels(decision, mode, level, operation.lower(), known, subresource)
            series = self._series[evaluation] = self._evaluations.at(**labels)
        series.value += 1


def _labels(
    decision: str, mode: str, level: tuple[str, str], operation: str, resource: str, subresource: str
) -> dict[str, str]:
    name, version = level
    return {
        "decision": decision,
        "mode": mode,
        "policy_level": name,
        "policy_version": "latest" if name == "privileged" else version,
        "request_operation": operation,
        "resource": resource,
        "subresource": subresource,
    }
