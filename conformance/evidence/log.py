"""The log as evidence: plain values that the cluster's control reads."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kubeskew.apimachinery.objects import ObjectView


@dataclass(frozen=True, slots=True)
class Write:
    """One write of an object. `value` is the object after it (before it, for a delete)."""

    revision: int
    time: str  # RFC 3339 with microseconds
    verb: str  # create, update, delete
    resource: str  # plural, or plural.group
    namespace: str
    name: str
    by: str  # component and its version
    value: Mapping[str, Any]
    server: str = ""  # the version of the API server that stored it
    user: str = ""  # authenticated


@dataclass(frozen=True, slots=True)
class ComponentChange:
    """A component started, stopped, was killed or failed; or a fault of it was set, fired, was cleared; or
    the log was branched off."""

    revision: int
    time: str
    component: str
    what: str
    version: str
    gates: str  # as the flag: A=true,B=false
    detail: str = ""  # of a fault, or why the component failed


BRANCHED = frozenset({"forked", "rewound"})  # entries about the log itself: no component lives on from there

FAULT = "fault-"  # prefix of entries about faults, during which the component keeps running

KUBELET = "kubelet/"  # begins the names of kubelets, before that of the node

Logged = Write | ComponentChange


def uid_of(obj: ObjectView) -> str:
    """Empty where a log has an object without a uid."""
    return str(obj["metadata"].get("uid") or "")
