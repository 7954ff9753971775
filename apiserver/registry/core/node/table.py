"""Makes the cells that `kubectl get` shows of Node objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import NONE, UNKNOWN, Cells, Subject

_ROLE_PREFIX = "node-role.kubernetes.io/"

_ROLE_LABEL = "kubernetes.io/role"


def node(subject: Subject) -> Cells:
    info = ("status", "nodeInfo")
    return {
        "Status": _status(subject),
        "Roles": ",".join(_roles(subject)) or NONE,
        "Version": subject.text(*info, "kubeletVersion"),
        "Internal-IP": _address(subject, "InternalIP"),
        "External-IP": _address(subject, "ExternalIP"),
        "OS-Image": subject.text(*info, "osImage", default=UNKNOWN),
        "Kernel-Version": subject.text(*info, "kernelVersion", default=UNKNOWN),
        "Container-Runtime": subject.text(*info, "containerRuntimeVersion", default=UNKNOWN),
    }


def _status(subject: Subject) -> str:
    ready = "Unknown"
    if subject.condition("Ready") is not None:
        ready = "Ready" if subject.is_true("Ready") else "NotReady"
    return f"{ready},SchedulingDisabled" if subject.at("spec", "unschedulable") else ready


def _roles(subject: Subject) -> list[str]:
    labels = subject.at("metadata", "labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    return sorted((roles | {labels.get(_ROLE_LABEL, "")}) - {""})


def _address(subject: Subject, kind: str) -> str:
    for address in subject.items("status", "addresses"):
        if address.get("type") == kind:
            return str(address.get("address", ""))
    return NONE
