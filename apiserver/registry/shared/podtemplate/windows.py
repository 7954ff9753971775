"""Holds the rules of pods for Windows: their options, host processes, and what else may not be set beside
them.

Source: pkg/apis/core/validation/validation.go (validateWindowsSecurityContextOptions,
validateWindowsHostProcessPod, validateOS, validateLinux, validateWindows), 1.36.
"""

import re
from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, child, forbidden, index, invalid, not_supported, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.features import PodFeatures

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


def all_containers(spec: Object, path: str) -> Iterator[tuple[Object, str]]:
    """Yields each container with its path, init containers first (VisitContainersWithPath)."""
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
    """Checks that all containers or none are host processes, and then on the node's network."""
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
    """Checks fields against the operating system that the pod names."""
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
