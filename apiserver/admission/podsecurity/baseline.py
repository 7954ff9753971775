"""Holds the checks of the level baseline.

Source: k8s.io/pod-security-admission/policy/check_*.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
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
CHECKS = (
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
