"""Holds the rules of security contexts, of pods and of containers.

Source: pkg/apis/core/validation/validation.go (validatePodSpecSecurityContext, ValidateSecurityContext and
what they call), 1.36.
"""

import re
from typing import Any

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import (
    FieldError,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    not_supported,
    required,
    too_long,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.shared import paths
from kubeskew.apiserver.registry.shared.internal_values import seccomp_profile, security_context
from kubeskew.apiserver.registry.shared.pod_options import PodOptions
from kubeskew.apiserver.registry.shared.podtemplate.windows import windows_errors

MAX_ID = 2**31 - 1
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_PROC_MOUNTS = ("Default", "Unmasked")
_SYSCTL = "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
_SYSCTL_TEXT = f"must have at most 253 characters and match regex {_SYSCTL}"
_MAX_PROFILE = 4095  # PATH_MAX - 1
_NET_SYSCTLS = ("net.",)
_IPC_SYSCTLS = ("kernel.shm", "kernel.msg", "fs.mqueue.")
_OLD_POLICIES = ("Recursive",)
_CHOICES = {
    "supplementalGroupsPolicy": ("Merge", "Strict"),
    "seLinuxChangePolicy": ("MountOption", "Recursive"),
}


def id_errors(value: int | None, path: str, largest: int = MAX_ID) -> list[FieldError]:
    """Checks a user's or group's number."""
    if value is None or 0 <= value <= largest:
        return []
    return [invalid(path, value, names.range_text(0, largest))]


def pod_security_errors(spec: Object, path: str, options: PodOptions) -> list[FieldError]:
    """Checks a pod's security context; `path`: that of the spec's securityContext."""
    security = spec.get("securityContext") or {}
    errors: list[FieldError] = []
    if security:
        for name in ("fsGroup", "runAsUser", "runAsGroup"):
            if name in security:
                errors += id_errors(security[name], child(path, name))
        at = child(path, "supplementalGroups")
        for position, number in enumerate(security.get("supplementalGroups") or []):
            errors += id_errors(number, index(at, position))
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(invalid(child(path, "shareProcessNamespace"), True, text))
    if security:
        errors += _of_pod(security, spec, path, options)
    return errors


def _of_pod(security: Object, spec: Object, path: str, options: PodOptions) -> list[FieldError]:
    errors = _sysctl_errors(security.get("sysctls") or [], spec, child(path, "sysctls"))
    errors += _choice(security, "fsGroupChangePolicy", ("Always", "OnRootMismatch"), path)
    errors += seccomp_errors(security.get("seccompProfile"), child(path, "seccompProfile"))
    if security.get("windowsOptions") is not None:
        errors += windows_errors(security["windowsOptions"], child(path, "windowsOptions"))
    errors += app_armor_errors(security.get("appArmorProfile"), child(path, "appArmorProfile"))
    for name, allowed in _CHOICES.items():
        old = name == "seLinuxChangePolicy" and not options.any_selinux_change
        errors += _choice(security, name, _OLD_POLICIES if old else allowed, path)
    return errors


def _choice(obj: Object, name: str, allowed: tuple[str, ...], path: str) -> list[FieldError]:
    value = obj.get(name)
    if value is None or value in allowed:
        return []
    return [not_supported(child(path, name), value, allowed)]


def _sysctl_errors(sysctls: list[Object], spec: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for position, sysctl in enumerate(sysctls):
        at, name = child(index(path, position), "name"), sysctl.get("name") or ""
        if not name:
            errors.append(required(at))
        elif len(name) > names.MAX_SUBDOMAIN or not re.fullmatch(_SYSCTL, name):
            errors.append(invalid(at, name, _SYSCTL_TEXT))
        elif name in seen:
            errors.append(duplicate(at, name))
        dotted = name.replace("/", ".")
        if spec.get("hostNetwork") and dotted.startswith(_NET_SYSCTLS):
            errors.append(invalid(at, name, "may not be specified when 'hostNetwork' is true"))
        elif spec.get("hostIPC") and (dotted.startswith(_IPC_SYSCTLS) or dotted == "kernel.sem"):
            errors.append(invalid(at, name, "may not be specified when 'hostIPC' is true"))
        seen.add(name)
    return errors


def seccomp_errors(profile: Object | None, path: str) -> list[FieldError]:
    if profile is None:
        return []
    kind, local = profile.get("type") or "", profile.get("localhostProfile")
    errors: list[FieldError] = []
    if not kind:
        errors.append(required(child(path, "type"), "type is required when seccompProfile is set"))
    elif kind not in _PROFILES:
        errors.append(not_supported(child(path, "type"), kind, _PROFILES))
    at = child(path, "localhostProfile")
    if kind == "Localhost":
        if local is None:
            errors.append(required(at, "must be set when seccomp type is Localhost"))
        else:
            errors += paths.descending(at, local)
    elif local is not None:
        text = "can only be set when seccomp type is Localhost"
        errors.append(invalid(at, seccomp_profile(profile), text))
    return errors


def app_armor_errors(profile: Object | None, path: str) -> list[FieldError]:
    if profile is None:
        return []
    kind, local = profile.get("type") or "", profile.get("localhostProfile")
    at = child(path, "localhostProfile")
    if not kind:
        return [required(child(path, "type"), "type is required when appArmorProfile is set")]
    if kind not in _PROFILES:
        return [not_supported(child(path, "type"), kind, _PROFILES)]
    if kind != "Localhost":
        text = "can only be set when AppArmor type is Localhost"
        return [] if local is None else [invalid(at, local, text)]
    missing = required(at, "must be set when AppArmor type is Localhost")
    if local is None:
        return [missing]
    errors = []
    if local.strip() != local:
        errors.append(invalid(at, local, "must not be padded with whitespace"))
    elif not local:
        errors.append(missing)
    if len(local.encode()) > _MAX_PROFILE:
        errors.append(too_long(at, _MAX_PROFILE))
    return errors


def container_security_errors(security: Object, path: str, *, host_users: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    for name in ("runAsUser", "runAsGroup"):
        if name in security:
            errors += id_errors(security[name], child(path, name))
    mount = security.get("procMount")
    if mount is not None:
        errors += _choice(security, "procMount", _PROC_MOUNTS, path)
        if host_users and mount == "Unmasked":
            text = "`hostUsers` must be false to use `Unmasked`"
            errors.append(invalid(child(path, "procMount"), mount, text))
    errors += seccomp_errors(security.get("seccompProfile"), child(path, "seccompProfile"))
    if security.get("allowPrivilegeEscalation") is False:
        errors += _escalation_errors(security, path)
    if security.get("windowsOptions") is not None:
        errors += windows_errors(security["windowsOptions"], child(path, "windowsOptions"))
    errors += app_armor_errors(security.get("appArmorProfile"), child(path, "appArmorProfile"))
    return errors


def _escalation_errors(security: Object, path: str) -> list[FieldError]:
    shown: Any = security_context(security)
    begin = "cannot set `allowPrivilegeEscalation` to false and"
    errors = []
    if security.get("privileged"):
        errors.append(invalid(path, shown, f"{begin} `privileged` to true"))
    added = (security.get("capabilities") or {}).get("add") or []
    text = f"{begin} `capabilities.Add` CAP_SYS_ADMIN"
    return errors + [invalid(path, shown, text) for capability in added if capability == "CAP_SYS_ADMIN"]


def annotation_mismatch(annotation: str, profile: Object, path: str) -> list[FieldError]:
    """Checks a seccomp annotation that says something else than the field beside it."""
    kind, local = profile.get("type") or "", profile.get("localhostProfile")
    wrong = forbidden(child(path, "type"), "seccomp type in annotation and field must match")
    if kind == "Unconfined":
        return [] if annotation == "unconfined" else [wrong]
    if kind == "RuntimeDefault":
        return [] if annotation in {"runtime/default", "docker/default"} else [wrong]
    if kind != "Localhost":
        return []
    if not annotation.startswith("localhost/"):
        return [wrong]
    if annotation.removeprefix("localhost/") != local:
        text = "seccomp profile in annotation and field must match"
        return [forbidden(child(path, "localhostProfile"), text)]
    return []
