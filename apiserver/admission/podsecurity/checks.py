"""Checks pods by the Pod Security Standards, at the levels baseline and restricted.

Sources: k8s.io/pod-security-admission/policy (checks.go, visitor.go, helpers.go), 1.36;
k8s.io/pod-security-admission/policy/check_*.go, 1.36.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import is_between

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


class Violation(NamedTuple):
    """`reason` is a word or two, `detail` names the containers and fields."""

    reason: str
    detail: str


class Pod(NamedTuple):
    """The template of a controller counts as a pod; with `relaxes`, user namespaces loosen some checks."""

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
    """Of a check's minors, the newest that the policy's version includes is run.

    `overrides` names checks of the baseline that this one includes.
    """

    id: str
    versions: Sequence[tuple[int, Check]]
    overrides: frozenset[str] = frozenset()

    def at(self, minor: int) -> Check | None:
        found = [check for since, check in self.versions if is_between(minor, since, None)]
        return found[-1] if found else None


def security(holder: Object, name: str) -> Any:
    return (holder.get("securityContext") or {}).get(name)


def plural(one: str, many: str, number: int) -> str:
    return one if number == 1 else many


def quoted(names: Iterable[str]) -> str:
    """The form is `"a", "b"`."""
    return ", ".join(json.dumps(name, ensure_ascii=False) for name in names)


def containers_named(names: Sequence[str]) -> str:
    """The form is `container "a"`, or `containers "a", "b"`."""
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


_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_PROFILES = frozenset({"RuntimeDefault", "Localhost"})
_CAPABILITIES = frozenset(
    {
        "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE",
        "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
    }
)  # fmt: skip
_SELINUX = frozenset({"", "container_t", "container_init_t", "container_kvm_t"})
_SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range", "net.ipv4.ip_unprivileged_port_start",
    }
)  # fmt: skip
_SYSCTLS_27 = _SYSCTLS | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_29 = _SYSCTLS_27 | {
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}
_SYSCTLS_32 = _SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}


def app_armor(pod: Pod) -> Violation | None:
    values: set[str] = set()

    def is_bad(holder: Object) -> bool:
        kind = (security(holder, "appArmorProfile") or {}).get("type")
        if kind is None or kind in _PROFILES:
            return False
        values.add(kind)
        return True

    who = setters(pod, is_bad)
    annotations = sorted(
        f"{name}={quoted([value])}"
        for name, value in pod.annotations.items()
        if name.startswith(_APPARMOR) and not _allows_annotation(value)
    )
    if annotations:
        noted = plural("annotation", "annotations", len(annotations))
        who = f"{who} and {noted}" if who else noted
    if not who:
        return None
    bad = [*sorted(values), *annotations]
    reason = plural("forbidden AppArmor profile", "forbidden AppArmor profiles", len(bad))
    return Violation(reason, f"{who} must not set AppArmor profile type to {quoted(bad)}")


def _allows_annotation(value: str) -> bool:
    return value in {"", "runtime/default"} or value.startswith("localhost/")


def capabilities(pod: Pod) -> Violation | None:
    bad, added = [], set()
    for container in pod.containers():
        forbidden = set((security(container, "capabilities") or {}).get("add") or ()) - _CAPABILITIES
        if forbidden:
            bad.append(name_of(container))
            added |= forbidden
    if not bad:
        return None
    text = f"{containers_named(bad)} must not include {quoted(sorted(added))}"
    return Violation("non-default capabilities", f"{text} in securityContext.capabilities.add")


def host_namespaces(pod: Pod) -> Violation | None:
    shared = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if pod.spec.get(name)]
    return Violation("host namespaces", ", ".join(shared)) if shared else None


def host_paths(pod: Pod) -> Violation | None:
    names = [
        volume.get("name") or ""
        for volume in pod.spec.get("volumes") or ()
        if volume.get("hostPath") is not None
    ]
    if not names:
        return None
    return Violation("hostPath volumes", f"{plural('volume', 'volumes', len(names))} {quoted(names)}")


def host_ports(pod: Pod) -> Violation | None:
    bad, ports = [], set()
    for container in pod.containers():
        used = {str(port["hostPort"]) for port in container.get("ports") or () if port.get("hostPort")}
        if used:
            bad.append(name_of(container))
            ports |= used
    if not bad:
        return None
    uses = plural("uses", "use", len(bad))
    what = plural("hostPort", "hostPorts", len(ports))
    return Violation("hostPort", f"{containers_named(bad)} {uses} {what} {', '.join(sorted(ports))}")


def host_probes(pod: Pod) -> Violation | None:
    bad, hosts = set(), set()
    for container in pod.containers():
        lifecycle = container.get("lifecycle") or {}
        handlers = [container.get(f"{name}Probe") for name in ("liveness", "readiness", "startup")]
        handlers += [lifecycle.get("postStart"), lifecycle.get("preStop")]
        found = {
            handler[way]["host"]
            for handler in handlers
            for way in ("httpGet", "tcpSocket")
            if handler and (handler.get(way) or {}).get("host")
        }
        if found:
            bad.add(name_of(container))
            hosts |= found
    if not bad:
        return None
    uses = plural("uses", "use", len(bad))
    what = plural("probe or lifecycle host", "probe or lifecycle hosts", len(hosts))
    text = f"{containers_named(sorted(bad))} {uses} {what} {quoted(sorted(hosts))}"
    return Violation("probe or lifecycle host", text)


def privileged(pod: Pod) -> Violation | None:
    bad = [name_of(container) for container in pod.containers() if security(container, "privileged")]
    if not bad:
        return None
    return Violation("privileged", f"{containers_named(bad)} must not set securityContext.privileged=true")


def proc_mount(pod: Pod) -> Violation | None:
    bad, kinds = [], set()
    for container in pod.containers():
        kind = security(container, "procMount")
        if kind is not None and kind != "Default":
            bad.append(name_of(container))
            kinds.add(kind)
    if not bad:
        return None
    text = f"{containers_named(bad)} must not set securityContext.procMount to {quoted(sorted(kinds))}"
    return Violation("procMount", text)


def proc_mount_relaxed(pod: Pod) -> Violation | None:
    return None if pod.in_user_namespace else proc_mount(pod)


def _selinux(allowed: frozenset[str]) -> Check:
    def check(pod: Pod) -> Violation | None:
        types: set[str] = set()
        named: set[str] = set()

        def is_bad(holder: Object) -> bool:
            options = security(holder, "seLinuxOptions") or {}
            wrong = {options.get("type") or ""} - allowed
            given = {name for name in ("user", "role") if options.get(name)}
            types.update(wrong)
            named.update(given)
            return bool(wrong or given)

        who = setters(pod, is_bad)
        if not who:
            return None
        said = [f"{plural('type', 'types', len(types))} {quoted(sorted(types))}"] if types else []
        said += [f"{name} may not be set" for name in ("user", "role") if name in named]
        text = f"{who} set forbidden securityContext.seLinuxOptions: {'; '.join(said)}"
        return Violation("seLinuxOptions", text)

    return check


def seccomp_annotations(pod: Pod) -> Violation | None:
    names = [_SECCOMP_POD, *(_SECCOMP_CONTAINER + name_of(container) for container in pod.containers())]
    bad = sorted(
        {
            f"{name}={quoted([pod.annotations[name]])}"
            for name in names
            if name in pod.annotations and not _allows_seccomp(pod.annotations[name])
        }
    )
    if not bad:
        return None
    what = plural("annotation", "annotations", len(bad))
    return Violation("seccompProfile", f"forbidden {what} {', '.join(bad)}")


def _allows_seccomp(value: str) -> bool:
    return value in {"runtime/default", "docker/default"} or value.startswith("localhost/")


def seccomp(pod: Pod) -> Violation | None:
    values: set[str] = set()

    def is_bad(holder: Object) -> bool:
        profile = security(holder, "seccompProfile")
        if profile is None or profile.get("type") in _PROFILES:
            return False
        values.add(profile.get("type") or "")
        return True

    who = setters(pod, is_bad)
    if not who:
        return None
    text = f"{who} must not set securityContext.seccompProfile.type to {quoted(sorted(values))}"
    return Violation("seccompProfile", text)


def _sysctls(allowed: frozenset[str]) -> Check:
    def check(pod: Pod) -> Violation | None:
        given = [sysctl.get("name") or "" for sysctl in security(pod.spec, "sysctls") or ()]
        bad = [name for name in given if name not in allowed]
        return Violation("forbidden sysctls", ", ".join(bad)) if bad else None

    return check


def windows_host_process(pod: Pod) -> Violation | None:
    who = setters(pod, lambda holder: bool((security(holder, "windowsOptions") or {}).get("hostProcess")))
    if not who:
        return None
    return Violation("hostProcess", f"{who} must not set securityContext.windowsOptions.hostProcess=true")


# In the order of their ids, which is that of their violations.
BASELINE = (
    Versioned("appArmorProfile", ((0, app_armor),)),
    Versioned("capabilities_baseline", ((0, capabilities),)),
    Versioned("hostNamespaces", ((0, host_namespaces),)),
    Versioned("hostPathVolumes", ((0, host_paths),)),
    Versioned("hostPorts", ((0, host_ports),)),
    Versioned("hostProbesAndHostLifecycle", ((34, host_probes),)),
    Versioned("privileged", ((0, privileged),)),
    Versioned("procMount_baseline", ((0, proc_mount), (35, proc_mount_relaxed))),
    Versioned("seLinuxOptions", ((0, _selinux(_SELINUX)), (31, _selinux(_SELINUX | {"container_engine_t"})))),
    Versioned("seccompProfile_baseline", ((0, seccomp_annotations), (19, seccomp))),
    Versioned(
        "sysctls",
        (
            (0, _sysctls(_SYSCTLS)),
            (27, _sysctls(_SYSCTLS_27)),
            (29, _sysctls(_SYSCTLS_29)),
            (32, _sysctls(_SYSCTLS_32)),
        ),
    ),
    Versioned("windowsHostProcess", ((0, windows_host_process),)),
)


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


def restricted_capabilities(pod: Pod) -> Violation | None:
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


def restricted_seccomp(pod: Pod) -> Violation | None:
    broken = seccomp(pod)
    if broken is not None:
        return broken
    silent = _silent(pod, "seccompProfile", lambda value: (value or {}).get("type") in _PROFILES)
    if not silent:
        return None
    text = f"pod or {containers_named(silent)} must set securityContext.seccompProfile.type"
    return Violation("seccompProfile", f'{text} to "RuntimeDefault" or "Localhost"')


def _silent(pod: Pod, field: str, is_good: Callable[[Any], bool]) -> list[str]:
    """Containers that do not set the field are listed, unless the pod sets it well for all."""
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
RESTRICTED = (
    Versioned(
        "allowPrivilegeEscalation",
        ((8, privilege_escalation), (25, _but_for_windows(privilege_escalation))),
    ),
    Versioned(
        "capabilities_restricted",
        ((22, restricted_capabilities), (25, _but_for_windows(restricted_capabilities))),
        frozenset({"capabilities_baseline"}),
    ),
    Versioned("procMount_restricted", ((35, proc_mount),)),
    Versioned("restrictedVolumes", ((0, volumes),), frozenset({"hostPathVolumes"})),
    Versioned("runAsNonRoot", ((0, run_as_non_root), (35, _but_in_user_namespaces(run_as_non_root)))),
    Versioned("runAsUser", ((23, run_as_user), (35, _but_in_user_namespaces(run_as_user)))),
    Versioned(
        "seccompProfile_restricted",
        ((19, restricted_seccomp), (25, _but_for_windows(restricted_seccomp))),
        frozenset({"seccompProfile_baseline"}),
    ),
)
