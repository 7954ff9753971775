"""Security contexts, annotations of pods and templates, and Windows pods follow these rules.

Source: pkg/apis/core/validation/validation.go (validatePodSpecSecurityContext, ValidateSecurityContext and
what they call; ValidatePodSpecificAnnotations and its neighbours; validateWindowsSecurityContextOptions,
validateWindowsHostProcessPod, validateOS, validateLinux, validateWindows), 1.36.
"""

import re
from collections.abc import Iterator
from typing import Any

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import (
    FieldError,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    key,
    not_supported,
    required,
    too_long,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.features import PodFeatures
from kubeskew.apiserver.registry.shared.internal_values import seccomp_profile, security_context
from kubeskew.apiserver.registry.shared.pod_options import PodOptions
from kubeskew.apiserver.registry.shared.volumes import sources

_MAX_SPEC_KIB = 64
_MAX_DOMAIN = 256
_MAX_USER = 104
_NET_BIOS = r'[^\\/:\*\?"<>|\.][^\\/:\*\?"<>|]{0,14}'
_LABEL = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DOMAIN = rf"{_LABEL}(?:\.{_LABEL})*"
_CONTROL = re.compile("[\x00-\x1f\x7f]")
_WRONG_CHARS = re.compile(r'["/\\:;|=,\+\*\?<>@\[\]]')
_SYSTEMS = ("linux", "windows")
# Of a pod: (where it stands: in the security context or in the spec, name), in upstream's order.
_POD_ONLY_LINUX = (
    ("security", "appArmorProfile"), ("security", "seLinuxOptions"), ("spec", "hostUsers"),
    ("spec", "hostPID"), ("spec", "hostIPC"), ("security", "seccompProfile"), ("security", "fsGroup"),
    ("security", "fsGroupChangePolicy"), ("security", "sysctls"), ("spec", "shareProcessNamespace"),
    ("security", "runAsUser"), ("security", "runAsGroup"), ("security", "supplementalGroups"),
    ("security", "supplementalGroupsPolicy"), ("security", "seLinuxChangePolicy"),
)  # fmt: skip
_CONTAINER_ONLY_LINUX = (
    "appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem",
    "privileged", "allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup",
)  # fmt: skip
_SHOWN_WHEN_TRUE = frozenset({"hostPID", "hostIPC"})
_LISTS = frozenset({"sysctls"})
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
MIRROR = "kubernetes.io/config.mirror"
APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_SECCOMP_NAMES = ("runtime/default", "docker/default", "unconfined")
_APP_ARMOR_NAMES = ("", "runtime/default", "unconfined")
_MIN = -(2**31)
_MAX = 2**31 - 1
_TYPES = {"unconfined": "Unconfined", "runtime/default": "RuntimeDefault"}


def all_containers(spec: Object, path: str) -> Iterator[tuple[Object, str]]:
    """Init containers come first (VisitContainersWithPath)."""
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for position, container in enumerate(spec.get(field) or ()):
            yield container, index(child(path, field), position)


def windows_errors(options: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    name, credential = options.get("gmsaCredentialSpecName"), options.get("gmsaCredentialSpec")
    if name is not None:
        at = child(path, "gmsaCredentialSpecName")
        errors += [invalid(at, name, text) for text in names.dns1123_subdomain(name)]
    at = child(path, "gmsaCredentialSpec")
    if credential == "":
        errors.append(invalid(at, credential, "gmsaCredentialSpec cannot be an empty string"))
    elif credential is not None and len(credential.encode()) > _MAX_SPEC_KIB * 1024:
        errors.append(invalid(at, credential, f"gmsaCredentialSpec size must be under {_MAX_SPEC_KIB} KiB"))
    user = options.get("runAsUserName")
    if user is not None:
        errors += [invalid(child(path, "runAsUserName"), user, text) for text in _user_texts(user)]
    return errors


def _user_texts(value: str) -> Iterator[str]:
    if not value:
        yield "runAsUserName cannot be an empty string"
        return
    if _CONTROL.search(value):
        yield "runAsUserName cannot contain control characters"
        return
    if value.count("\\") > 1:
        yield "runAsUserName cannot contain more than one backslash"
        return
    domain, backslash, user = value.rpartition("\\")
    if len(domain) >= _MAX_DOMAIN:
        yield f"runAsUserName's Domain length must be under {_MAX_DOMAIN} characters"
    if backslash and not (re.fullmatch(_NET_BIOS, domain) or re.fullmatch(_DOMAIN, domain)):
        yield "runAsUserName's Domain doesn't match the NetBios nor the DNS format"
    if not user:
        yield "runAsUserName's User cannot be empty"
    elif len(user) > _MAX_USER:
        yield f"runAsUserName's User length must not be longer than {_MAX_USER} characters"
    if re.fullmatch(r"[\. ]+", user):
        yield "runAsUserName's User cannot contain only periods or spaces"
    if _WRONG_CHARS.search(user):
        yield "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]"


def _host_process(obj: Object) -> bool | None:
    options = (obj.get("securityContext") or {}).get("windowsOptions") or {}
    value: bool | None = options.get("hostProcess")
    return value


def host_process_errors(spec: Object, path: str) -> list[FieldError]:
    """All containers or none are host processes, and then on the node's network."""
    errors: list[FieldError] = []
    of_pod = _host_process(spec)
    count = processes = 0
    for container, at in all_containers(spec, path):
        count += 1
        own = _host_process(container)
        if of_pod is not None and own is not None and of_pod != own:
            text = f"pod hostProcess value must be identical if both are specified, was {str(of_pod).lower()}"
            errors.append(invalid(child(at, "securityContext.windowsOptions.hostProcess"), own, text))
        processes += bool(of_pod if own is None else own)
    if not processes:
        return errors
    if processes != count:
        text = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        errors.append(invalid(path, "", text))
    if not spec.get("hostNetwork"):
        text = "hostNetwork must be true if pod contains any hostProcess containers"
        errors.append(invalid(child(path, "hostNetwork"), False, text))
    return errors


def system_errors(spec: Object, path: str, features: PodFeatures) -> list[FieldError]:
    name = (spec.get("os") or {}).get("name") or ""
    if not name:
        return [required(child(path, "os.name"), "" if features.short_os_text else "cannot be empty")]
    if name not in _SYSTEMS:
        return [not_supported(child(path, "os"), name, _SYSTEMS)]
    return _of_linux(spec, path) if name == "linux" else _of_windows(spec, path)


def _of_linux(spec: Object, path: str) -> list[FieldError]:
    text = "windows options cannot be set for a linux pod"
    return [
        forbidden(child(at, "securityContext.windowsOptions"), text)
        for obj, at in ((spec, path), *all_containers(spec, path))
        if (obj.get("securityContext") or {}).get("windowsOptions") is not None
    ]


def _of_windows(spec: Object, path: str) -> list[FieldError]:
    security = spec.get("securityContext") or {}
    found = []
    for where, name in _POD_ONLY_LINUX:
        value = (security if where == "security" else spec).get(name)
        given = bool(value) if name in _SHOWN_WHEN_TRUE or name in _LISTS else value is not None
        if given:
            found.append(child(path, f"securityContext.{name}" if where == "security" else name))
    for container, at in all_containers(spec, path):
        own = container.get("securityContext") or {}
        given_names = (name for name in _CONTAINER_ONLY_LINUX if own.get(name) is not None)
        found += [child(at, f"securityContext.{name}") for name in given_names]
    return [forbidden(at, "cannot be set for a windows pod") for at in found]


def id_errors(value: int | None, path: str, largest: int = MAX_ID) -> list[FieldError]:
    if value is None or 0 <= value <= largest:
        return []
    return [invalid(path, value, names.range_text(0, largest))]


def pod_security_errors(spec: Object, path: str, options: PodOptions) -> list[FieldError]:
    """`path`: that of the spec's securityContext."""
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
            errors += sources.descending_path(at, local)
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
    """A seccomp annotation must say the same as the field next to it."""
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


def annotation_errors(annotations: dict[str, str], spec: Object, path: str) -> Iterator[FieldError]:
    """`path`: that of the annotations."""
    if MIRROR in annotations and not spec.get("nodeName"):
        text = "must set spec.nodeName if mirror pod annotation is set"
        yield invalid(key(path, MIRROR), annotations[MIRROR], text)
    cost = annotations.get(_DELETION_COST)
    if cost is not None and not _is_cost(cost):
        yield invalid(key(path, _DELETION_COST), cost, "must be a 32bit integer")
    if SECCOMP_POD in annotations:
        yield from _seccomp(annotations[SECCOMP_POD], child(path, SECCOMP_POD))
    for name in sorted(annotations):
        if name.startswith(SECCOMP_CONTAINER):
            yield from _seccomp(annotations[name], child(path, name))
    for name in sorted(annotations):
        if name.startswith(APP_ARMOR):
            yield from _app_armor(name, annotations[name], spec, key(path, name))


def _is_cost(text: str) -> bool:
    """A cost is a plain number: no plus sign, no leading zeros."""
    if text == "0":
        return True
    return bool(re.fullmatch("-?[1-9][0-9]*", text)) and _MIN <= int(text) <= _MAX


def _seccomp(value: str, path: str) -> Iterator[FieldError]:
    if value.startswith("localhost/"):
        yield from sources.descending_path(path, value.removeprefix("localhost/"))
    elif value not in _SECCOMP_NAMES:
        yield invalid(path, value, "must be a valid seccomp profile")


def _app_armor(name: str, value: str, spec: Object, path: str) -> Iterator[FieldError]:
    wanted = name.removeprefix(APP_ARMOR)
    if all(container.get("name") != wanted for container, _ in all_containers(spec, "")):
        yield invalid(path, wanted, "container not found")
    if value not in _APP_ARMOR_NAMES and not value.startswith("localhost/"):
        yield invalid(path, value, f'invalid AppArmor profile name: "{value}"')


def annotation_change_errors(new: Object, old: Object) -> Iterator[FieldError]:
    """Annotations about a pod's containers stay as they were; new annotations are checked again."""
    after, before = (pod["metadata"].get("annotations") or {} for pod in (new, old))
    path = "metadata.annotations"
    if after != before:
        for name in sorted(before):
            if after.get(name) == before[name]:
                continue
            if name.startswith(APP_ARMOR):
                yield forbidden(key(path, name), "may not remove or update AppArmor annotations")
            if name == MIRROR:
                yield forbidden(key(path, name), "may not remove or update mirror pod annotation")
        for name in sorted(after.keys() - before.keys()):
            if name.startswith(APP_ARMOR):
                yield forbidden(key(path, name), "may not add AppArmor annotations")
            if name == MIRROR:
                yield forbidden(key(path, name), "may not add mirror pod annotation")
    yield from annotation_errors(after, new["spec"], path)


def mismatch_errors(annotations: dict[str, str], spec: Object, path: str) -> Iterator[FieldError]:
    """Annotations must agree with the fields that replaced them. `path`: that of the spec."""
    security = spec.get("securityContext") or {}
    at = child(path, "securityContext.seccompProfile")
    if security.get("seccompProfile") is not None and SECCOMP_POD in annotations:
        yield from annotation_mismatch(annotations[SECCOMP_POD], security["seccompProfile"], at)
    for container, where in all_containers(spec, path):
        profile = (container.get("securityContext") or {}).get("seccompProfile")
        said = annotations.get(SECCOMP_CONTAINER + (container.get("name") or ""))
        if profile is not None and said is not None:
            yield from annotation_mismatch(said, profile, child(where, "securityContext.seccompProfile"))
    if (spec.get("os") or {}).get("name") == "windows":
        return
    for container, where in all_containers(spec, path):
        own = (container.get("securityContext") or {}).get("appArmorProfile")
        profile = own if own is not None else security.get("appArmorProfile")
        said = annotations.get(APP_ARMOR + (container.get("name") or ""))
        if profile is not None and said is not None:
            yield from _armor_mismatch(said, profile, child(where, "securityContext.appArmorProfile"))


def _armor_mismatch(said: str, profile: Object, path: str) -> Iterator[FieldError]:
    expected = {"Unconfined": "unconfined", "RuntimeDefault": "runtime/default"}
    kind = profile.get("type") or ""
    wrong = said != expected[kind] if kind in expected else kind == "Localhost" and said[:10] != "localhost/"
    if wrong:
        yield forbidden(child(path, "type"), "apparmor type in annotation and field must match")
    elif kind == "Localhost" and said.removeprefix("localhost/") != profile.get("localhostProfile"):
        text = "apparmor profile in annotation and field must match"
        yield forbidden(child(path, "localhostProfile"), text)


def app_armor_profile(annotation: str) -> Object | None:
    """An annotation stands for this field; None if it is not valid."""
    if annotation in _TYPES:
        return {"type": _TYPES[annotation]}
    if not annotation.startswith("localhost/"):
        return None
    profile = {"type": "Localhost", "localhostProfile": annotation.removeprefix("localhost/")}
    return None if app_armor_errors(profile, "") else profile
