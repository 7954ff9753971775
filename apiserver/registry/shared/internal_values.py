"""Shows structs of upstream's internal types as its errors and warnings do: with Go's names.

The internal types of the core group have no JSON names.

Source: pkg/apis/core/types.go, 1.36.
"""

from collections.abc import Mapping
from typing import Any

from kubeskew.apimachinery.objects import Object

_SERVICE_PORT = {"name": "", "protocol": "", "appProtocol": None, "port": 0, "targetPort": 0, "nodePort": 0}
_TAINT = {"key": "", "value": "", "effect": "", "timeAdded": None}
_CLAIM_SPEC = ("resourceClassName", "parameters", "allocationMode")
_SECCOMP = {"type": "", "localhostProfile": None}
_SECURITY = dict.fromkeys(
    (
        "capabilities", "privileged", "seLinuxOptions", "windowsOptions", "runAsUser", "runAsGroup",
        "runAsNonRoot", "readOnlyRootFilesystem", "allowPrivilegeEscalation", "procMount", "seccompProfile",
        "appArmorProfile",
    )
)  # fmt: skip
_INSIDE: Mapping[str, Mapping[str, Any]] = {
    "capabilities": {"add": None, "drop": None},
    "seLinuxOptions": dict.fromkeys(("user", "role", "type", "level"), ""),
    "windowsOptions": dict.fromkeys(
        ("gmsaCredentialSpecName", "gmsaCredentialSpec", "runAsUserName", "hostProcess")
    ),
    "seccompProfile": _SECCOMP,
    "appArmorProfile": _SECCOMP,
}
_TRUST_BUNDLE = {"name": None, "signerName": None, "labelSelector": None, "optional": None, "path": ""}
_ADDRESS = {"type": "", "address": ""}


def container_port(port: Object) -> str:
    shown = {
        "Name": port.get("name") or "",
        "HostPort": port.get("hostPort") or 0,
        "ContainerPort": port.get("containerPort") or 0,
        "Protocol": port.get("protocol") or "",
        "HostIP": port.get("hostIP") or "",
    }
    return f"{{{' '.join(f'{name}:{value}' for name, value in shown.items())}}}"


def _go_name(name: str) -> str:
    if name.startswith("gmsa"):
        return name.replace("gmsa", "GMSA", 1)
    return {"seLinuxOptions": "SELinuxOptions"}.get(name, name[:1].upper() + name[1:])


def _shown(obj: Object, zeros: Mapping[str, Any]) -> Object:
    return {_go_name(name): _nested(obj.get(name, zero)) for name, zero in zeros.items()}


def _nested(value: Any) -> Any:
    if isinstance(value, dict):
        return {_go_name(name): _nested(item) for name, item in value.items()}
    return [_nested(item) for item in value] if isinstance(value, list) else value


def service_port(port: Object) -> Object:
    return _shown(port, _SERVICE_PORT)


def taint(obj: Object) -> Object:
    return _shown(obj, _TAINT)


def pod_claim(claim: Object, sources: tuple[str, ...], *, named: bool) -> Object:
    """Sources of a pod's claim stand alone where they are a struct of their own."""
    name = {"name": ""} if named else {}
    shown = _shown(claim, name | dict.fromkeys(sources))
    template = claim.get("template")
    if template is not None:  # with metadata embedded, which has JSON names
        metadata = {"creationTimestamp": None, **(template.get("metadata") or {})}
        spec = {_go_name(field): (template.get("spec") or {}).get(field) for field in _CLAIM_SPEC}
        shown["Template"] = metadata | {"Spec": spec}
    return shown


def seccomp_profile(profile: Object) -> Object:
    return _shown(profile, _SECCOMP)


def security_context(security: Object) -> Object:
    inside = {
        _go_name(name): _shown(security[name], zeros)
        for name, zeros in _INSIDE.items()
        if security.get(name) is not None
    }
    return _shown(security, _SECURITY) | inside


def cluster_trust_bundle(projection: Object) -> Object:
    return _shown(projection, _TRUST_BUNDLE)


def node_address(address: Object) -> Object:
    return _shown(address, _ADDRESS)


def update_strategy(strategy: Object, rolling: tuple[str, ...]) -> Object:
    """`rolling`: the fields of the rolling update of a deployment, a daemon set or a stateful set."""
    zeros = {name: 0 if name == "partition" else None for name in rolling}
    inside = strategy.get("rollingUpdate")
    shown = None if inside is None else _shown(inside, zeros)
    return {"Type": strategy.get("type") or "", "RollingUpdate": shown}


def success_policy(policy: Object) -> Object:
    rule = {"succeededIndexes": None, "succeededCount": None}
    rules = policy.get("rules")
    return {"Rules": None if rules is None else [_shown(element, rule) for element in rules]}
