"""The context of one running cell."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kubeskew.apimachinery.client.refs import PODS
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.objects import Object
from kubeskew.conformance.control import ClusterControl
from kubeskew.conformance.kinds import Kinds

DEFAULT_TIMEOUTS = {"apply": 5.0, "assert": 30.0, "error": 30.0, "delete": 30.0, "exec": 30.0}


@dataclass(slots=True)
class CellContext:
    """The cluster, a client of it, the namespace of the scenario's objects, and what is bound to names."""

    control: ClusterControl
    client: APIClient
    kinds: Kinds
    clock: Clock
    namespace: str
    bindings: dict[str, Any]
    timeouts: Mapping[str, float]
    baseline: dict[str, Object] = field(default_factory=dict)  # pods by uid, before they could be disturbed
    present: set[str] = field(default_factory=set)  # the uids of those that were there at the last change
    observations: dict[str, Any] = field(default_factory=dict)  # by name, for the report
    faults: dict[str, str] = field(default_factory=dict)  # those that are set: by id, by which operation
    prepared: dict[str, list[str]] = field(default_factory=dict)  # claims by node, at the same moment

    def timeout(self, operation: str) -> float:
        """Seconds that an operation may take."""
        return self.timeouts.get(operation, DEFAULT_TIMEOUTS.get(operation, 30.0))

    def as_user(self, user: Mapping[str, Any]) -> "CellContext":
        """The same cell, seen by another user: `{user, extra: {key: value}}`."""
        return replace(self, client=self.client.impersonating(user["user"], user.get("extra") or {}))

    async def remember_pods(self) -> None:
        """Note how every pod and every node's claims are; the first note of a pod stays.

        While no API server answers nothing can have changed that was not noted before.
        """
        try:
            pods = (await self.client.list(PODS))["items"]
        except CONNECTION_ERRORS:
            return
        self.present = {pod["metadata"]["uid"] for pod in pods}
        for pod in pods:
            self.baseline.setdefault(pod["metadata"]["uid"], pod)
        for node, claims in (await self.control.prepared()).items():
            self.prepared[node] = list(claims)
