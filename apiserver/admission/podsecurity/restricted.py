"""Holds the checks that the level restricted has beyond baseline.

Source: k8s.io/pod-security-admission/policy/check_*.go, 1.36.
"""

from collections.abc import Callable
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.admission.podsecurity import baseline
from kubeskew.apiserver.admission.podsecurity.checking import (
    Check,
    Pod,
    Versioned,
    Violation,
    containers_named,
    name_of,
    plural,
    quoted,
    security,
    setters,
)

_PROFILES = frozenset({"RuntimeDefault", "Localhost"})
_VOLUMES = frozenset(
    {
        "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected",
        "secret",
    }
)  # fmt: skip
_RESTRICTED_VOLUMES = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "nfs", "iscsi", "glusterfs", "rbd",
    "flexVolume", "cinder", "cephfs", "flocker", "fc", "azureFile", "vsphereVolume", "quobyte", "azureDisk",
    "photonPersistentDisk", "portworxVolume", "scaleIO", "storageos",
)  # fmt: skip


def privilege_escalation(pod: Pod) -> Violation | None:
    bad = [
        name_of(container)
        for container in pod.containers()
        if security(container, "allowPrivilegeEscalation") is not False
    ]
    if not bad:
        return None
    text = f"{containers_named(bad)} must set securityContext.allowPrivilegeEscalation=false"
    return Violation("allowPrivilegeEscalation != false", text)


def capabilities(pod: Pod) -> Violation | None:
    keeping, adding, added = [], [], set()
    for container in pod.containers():
        found = security(container, "capabilities") or {}
        if "ALL" not in (found.get("drop") or ()):
            keeping.append(name_of(container))
        forbidden = set(found.get("add") or ()) - {"NET_BIND_SERVICE"}
        if forbidden:
            adding.append(name_of(container))
            added |= forbidden
    said = []
    if keeping:
        said.append(f'{containers_named(keeping)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        what = quoted(sorted(added))
        said.append(f"{containers_named(adding)} must not include {what} in securityContext.capabilities.add")
    return Violation("unrestricted capabilities", "; ".join(said)) if said else None


def volumes(pod: Pod) -> Violation | None:
    bad, kinds = [], set()
    for volume in pod.spec.get("volumes") or ():
        if not any(volume.get(kind) is not None for kind in _VOLUMES):
            bad.append(volume.get("name") or "")
            found = (kind for kind in _RESTRICTED_VOLUMES if volume.get(kind) is not None)
            kinds.add(next(found, "unknown"))
    if not bad:
        return None
    who = f"{plural('volume', 'volumes', len(bad))} {quoted(bad)} {plural('uses', 'use', len(bad))}"
    what = plural("restricted volume type", "restricted volume types", len(kinds))
    return Violation("restricted volume types", f"{who} {what} {quoted(sorted(kinds))}")


def run_as_non_root(pod: Pod) -> Violation | None:
    who = setters(pod, lambda holder: security(holder, "runAsNonRoot") is False)
    if who:
        return Violation("runAsNonRoot != true", f"{who} must not set securityContext.runAsNonRoot=false")
    silent = _silent(pod, "runAsNonRoot", lambda value: value is True)
    if not silent:
        return None
    text = f"pod or {containers_named(silent)} must set securityContext.runAsNonRoot=true"
    return Violation("runAsNonRoot != true", text)


def run_as_user(pod: Pod) -> Violation | None:
    who = setters(pod, lambda holder: security(holder, "runAsUser") == 0)
    return Violation("runAsUser=0", f"{who} must not set runAsUser=0") if who else None


def seccomp(pod: Pod) -> Violation | None:
    broken = baseline.seccomp(pod)
    if broken is not None:
        return broken
    silent = _silent(pod, "seccompProfile", lambda value: (value or {}).get("type") in _PROFILES)
    if not silent:
        return None
    text = f"pod or {containers_named(silent)} must set securityContext.seccompProfile.type"
    return Violation("seccompProfile", f'{text} to "RuntimeDefault" or "Localhost"')


def _silent(pod: Pod, field: str, is_good: Callable[[Any], bool]) -> list[str]:
    """Returns the containers that say nothing of a field, unless the pod says it well for all."""
    if is_good(security(pod.spec, field)):
        return []
    return [name_of(container) for container in pod.containers() if _unset(container, field)]


def _unset(container: Object, field: str) -> bool:
    return security(container, field) is None


def _but_for_windows(check: Check) -> Check:
    return lambda pod: None if pod.is_windows else check(pod)


def _but_in_user_namespaces(check: Check) -> Check:
    return lambda pod: None if pod.in_user_namespace else check(pod)


# In the order of their ids, which is that of their violations.
CHECKS = (
    Versioned(
        "allowPrivilegeEscalation",
        ((8, privilege_escalation), (25, _but_for_windows(privilege_escalation))),
    ),
    Versioned(
        "capabilities_restricted",
        ((22, capabilities), (25, _but_for_windows(capabilities))),
        frozenset({"capabilities_baseline"}),
    ),
    Versioned("procMount_restricted", ((35, baseline.proc_mount),)),
    Versioned("restrictedVolumes", ((0, volumes),), frozenset({"hostPathVolumes"})),
    Versioned("runAsNonRoot", ((0, run_as_non_root), (35, _but_in_user_namespaces(run_as_non_root)))),
    Versioned("runAsUser", ((23, run_as_user), (35, _but_in_user_namespaces(run_as_user)))),
    Versioned(
        "seccompProfile_restricted",
        ((19, seccomp), (25, _but_for_windows(seccomp))),
        frozenset({"seccompProfile_baseline"}),
    ),
)
