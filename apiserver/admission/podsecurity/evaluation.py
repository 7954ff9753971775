"""Reads levels of the Pod Security Standards from a namespace's labels, and evaluates them for a pod.

Sources: k8s.io/pod-security-admission/api/helpers.go, 1.36; k8s.io/pod-security-admission/policy/registry.go,
1.36.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from kubeskew.apimachinery.field import FieldError, invalid, key
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import is_between
from kubeskew.apiserver.admission.podsecurity import checks
from kubeskew.apiserver.admission.podsecurity.checks import Check, Pod, Violation

PRIVILEGED, BASELINE, RESTRICTED = LEVELS = ("privileged", "baseline", "restricted")
LATEST = "latest"
_PREFIX = "pod-security.kubernetes.io/"
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]*)")
_BAD_LEVEL = f"must be one of {', '.join(LEVELS)}"
_BAD_VERSION = 'must be "latest" or "v1.x"'
_RELAXED_SINCE = 35  # a pod's own user namespace loosens the standards


class Level(NamedTuple):
    """A level is as of a release of the standards; its text is `restricted:v1.25`."""

    name: str = PRIVILEGED
    version: str = LATEST

    def __str__(self) -> str:
        return f"{self.name}:{self.version}"

    @property
    def minor(self) -> int | None:
        """None stands for the latest."""
        return None if self.version == LATEST else int(self.version.removeprefix("v1."))


class Policy(NamedTuple):
    enforce: Level = Level()
    audit: Level = Level()
    warn: Level = Level()

    @property
    def is_privileged(self) -> bool:
        return self.enforce.name == self.audit.name == self.warn.name == PRIVILEGED


class _Reader:
    """Reads one label after the other, and collects the errors of those it cannot read."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels = labels
        self.errors: list[FieldError] = []

    def level(self, mode: str, fallback: str) -> tuple[str, bool]:
        """The second value is True if a label set the level; `fallback` replaces an invalid one."""
        value = self._labels.get(_PREFIX + mode)
        if value is None:
            return PRIVILEGED, False
        if value in LEVELS:
            return value, True
        self._refuse(mode, value, _BAD_LEVEL)
        return fallback, False

    def version(self, mode: str) -> str:
        value = self._labels.get(f"{_PREFIX}{mode}-version")
        if value is None or value == LATEST or _VERSION.fullmatch(value):
            return value or LATEST
        self._refuse(f"{mode}-version", value, _BAD_VERSION)
        return LATEST

    def has(self, label: str) -> bool:
        return _PREFIX + label in self._labels

    def _refuse(self, label: str, value: str, why: str) -> None:
        self.errors.append(invalid(key("metadata.labels", _PREFIX + label), value, why))


def read_policy(labels: Mapping[str, str] | None) -> tuple[Policy, list[FieldError]]:
    """An invalid label enforces the most, audits and warns of nothing; the second value has its error."""
    if not labels:
        return Policy(), []
    reader = _Reader(labels)
    enforced, enforcing = reader.level("enforce", RESTRICTED)
    enforce = Level(enforced, reader.version("enforce"))
    audit = Level(reader.level("audit", PRIVILEGED)[0], reader.version("audit"))
    warn = Level(reader.level("warn", PRIVILEGED)[0], reader.version("warn"))
    stricter = LEVELS.index(enforce.name) > LEVELS.index(warn.name)
    if enforcing and stricter and not reader.has("warn"):
        version = warn.version if reader.has("warn-version") else enforce.version
        warn = Level(enforce.name, version)
    return Policy(enforce, audit, warn), reader.errors


class Evaluator:
    """Evaluates the standards of a release; a later version of a level counts as the release's latest."""

    def __init__(self, minor: int) -> None:
        self._minor = minor

    def shown_version(self, level: Level) -> str:
        """Returns the version of a level as metrics show it: `future` is one after this release."""
        later = level.minor is not None and not is_between(level.minor, None, self._minor)
        return "future" if later else level.version

    def violations(self, level: Level, metadata: Object, spec: Object) -> list[Violation]:
        """Violations of baseline come first; both parts stand by the checks' ids."""
        if level.name == PRIVILEGED:
            return []
        wanted = self._minor if level.minor is None else min(level.minor, self._minor)
        pod = Pod(metadata.get("annotations") or {}, spec, relaxes=is_between(wanted, _RELAXED_SINCE, None))
        found = (check(pod) for check in _checks(level.name, wanted))
        return [violation for violation in found if violation is not None]


@cache
def _checks(level: str, minor: int) -> Sequence[Check]:
    extra = () if level == BASELINE else checks.RESTRICTED
    overridden = {name for check in extra if check.at(minor) is not None for name in check.overrides}
    kept = [check for check in checks.BASELINE if check.id not in overridden]
    found = (check.at(minor) for check in (*kept, *extra))
    return tuple(check for check in found if check is not None)


def details(violations: Sequence[Violation]) -> str:
    """The form is `privileged (container "c" must not …), hostPort (…)`."""
    return ", ".join(
        f"{violation.reason} ({violation.detail})" if violation.detail else violation.reason
        for violation in violations
    )


def reasons(violations: Sequence[Violation]) -> str:
    return ", ".join(violation.reason for violation in violations)
