"""Defines a Pod Security check, and holds what the checks have in common.

Source: k8s.io/pod-security-admission/policy (checks.go, visitor.go, helpers.go), 1.36.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from kubeskew.apimachinery.objects import Object


class Violation(NamedTuple):
    """Holds the reason for which a pod breaks a check: in a word, and in full."""

    reason: str
    detail: str


class Pod(NamedTuple):
    """A pod, or the pod of a controller's template; `relaxes`: user namespaces loosen some checks."""

    annotations: dict[str, str]
    spec: Object
    relaxes: bool = False

    @property
    def in_user_namespace(self) -> bool:
        return self.relaxes and self.spec.get("hostUsers") is False

    @property
    def is_windows(self) -> bool:
        return (self.spec.get("os") or {}).get("name") == "windows"

    def containers(self) -> Iterator[Object]:
        for field in ("initContainers", "containers", "ephemeralContainers"):
            yield from self.spec.get(field) or ()


Check = Callable[[Pod], Violation | None]


class Versioned(NamedTuple):
    """A check with its id; of several minors the newest that the policy's version includes is run.

    `overrides` names checks of the baseline that this one includes.
    """

    id: str
    versions: Sequence[tuple[int, Check]]
    overrides: frozenset[str] = frozenset()

    def at(self, minor: int) -> Check | None:
        found = [check for since, check in self.versions if since <= minor]
        return found[-1] if found else None


def security(holder: Object, name: str) -> Any:
    """Returns a field of the securityContext of a pod's spec or of a container; None if there is none."""
    return (holder.get("securityContext") or {}).get(name)


def plural(one: str, many: str, number: int) -> str:
    return one if number == 1 else many


def quoted(names: Iterable[str]) -> str:
    """Returns `"a", "b"`."""
    return ", ".join(json.dumps(name, ensure_ascii=False) for name in names)


def containers_named(names: Sequence[str]) -> str:
    """Returns `container "a"`, or `containers "a", "b"`."""
    return f"{plural('container', 'containers', len(names))} {quoted(names)}"


def name_of(container: Object) -> str:
    return container.get("name") or ""


def setters(pod: Pod, is_bad: Callable[[Object], bool]) -> str:
    """Names those that set something bad: `pod`, `container "a"`, `pod and containers "a", "b"`, or empty."""
    found = ["pod"] if is_bad(pod.spec) else []
    bad = [name_of(container) for container in pod.containers() if is_bad(container)]
    if bad:
        found.append(containers_named(bad))
    return " and ".join(found)
