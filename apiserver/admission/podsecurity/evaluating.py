"""Checks a pod against a level of the Pod Security Standards.

Source: k8s.io/pod-security-admission/policy/registry.go, 1.36.
"""

from collections.abc import Sequence
from functools import cache

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.admission.podsecurity import baseline, restricted
from kubeskew.apiserver.admission.podsecurity.checking import Check, Pod, Violation
from kubeskew.apiserver.admission.podsecurity.policies import BASELINE, PRIVILEGED, Level

_RELAXED_SINCE = 35  # a pod's own user namespace loosens the standards


class Evaluator:
    """Evaluates the standards of a release; a later version of a level counts as the release's latest."""

    def __init__(self, minor: int) -> None:
        self._minor = minor

    def shown_version(self, level: Level) -> str:
        """Returns the version of a level as metrics tell it: `future` is one after this release."""
        later = level.minor is not None and level.minor > self._minor
        return "future" if later else level.version

    def violations(self, level: Level, metadata: Object, spec: Object) -> list[Violation]:
        """Returns the violations of the pod, those of baseline first, by the checks' ids."""
        if level.name == PRIVILEGED:
            return []
        wanted = self._minor if level.minor is None else min(level.minor, self._minor)
        pod = Pod(metadata.get("annotations") or {}, spec, relaxes=wanted >= _RELAXED_SINCE)
        found = (check(pod) for check in _checks(level.name, wanted))
        return [violation for violation in found if violation is not None]


@cache
def _checks(level: str, minor: int) -> Sequence[Check]:
    extra = () if level == BASELINE else restricted.CHECKS
    overridden = {name for check in extra if check.at(minor) is not None for name in check.overrides}
    kept = [check for check in baseline.CHECKS if check.id not in overridden]
    found = (check.at(minor) for check in (*kept, *extra))
    return tuple(check for check in found if check is not None)


def details(violations: Sequence[Violation]) -> str:
    """Returns `privileged (container "c" must not …), hostPort (…)`."""
    return ", ".join(
        f"{violation.reason} ({violation.detail})" if violation.detail else violation.reason
        for violation in violations
    )


def reasons(violations: Sequence[Violation]) -> str:
    return ", ".join(violation.reason for violation in violations)
