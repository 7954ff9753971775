"""Faults as data: the calls that one selects, the times at which it fires, its effect and its progress.

Calls are requests, events of watches and commits of an API server. Names in faults are checked against the
API's, with a suggestion of the one that may have been meant. A report also says why a fault may not have
fired.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import unquote

import orjson

from kubeskew.apimachinery.known_names import did_you_mean
from kubeskew.apimachinery.protobuf_wire import MAGIC, namespace_and_name, raw_object

COMMITS = ("create", "update", "delete")  # as the log names them
WRITES = ("create", "update", "patch", "delete", "deletecollection")
VERBS = ("get", "list", "watch", *WRITES)
# Those of a kubelet to a driver on its node, by the name of the method (k8s.io/kubelet/pkg/apis/dra).
PLUGIN_CALLS = ("NodePrepareResources", "NodeUnprepareResources")
PLUGINS = "plugins"  # the resource of these calls
# Those of a kubelet to its container runtime, by the names of CRI's methods.
RUNTIME_CALLS = (
    *("Status", "RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "CreateContainer", "StartContainer"),
    *("UpdateContainerResources", "ExecSync", "PullImage"),
)
RUNTIME = "runtime"  # the resource of these calls
LOCAL_CALLS = {**dict.fromkeys(PLUGIN_CALLS, PLUGINS), **dict.fromkeys(RUNTIME_CALLS, RUNTIME)}

_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NAMESPACE_SUBRESOURCES = ("status", "finalize")
ANY = "*"
# Written periodically in any case: only a selector that names them, or `*`, selects them.
PERIODIC = ("leases", "events")
_SHOWN = 12  # kinds of calls


@cache
def _rows() -> tuple[dict[str, Any], ...]:
    from kubeskew.apimachinery.catalogue import data  # loaded only where faults are used

    return tuple(data.resource_rows())


@cache
def plurals() -> frozenset[str]:
    """Resources of all releases."""
    return frozenset(row["r"] for row in _rows())


@cache
def _by_kind() -> dict[str, str]:
    return {row["k"].lower(): row["r"] for row in _rows()}


def missing_resource(plural: str) -> str:
    """Message about a resource's name that no release has; empty if one has it.

    A resource of a custom group is not known here: with its group it is taken as it is written.
    """
    if plural in plurals():
        return ""
    known = _by_kind().get(plural.lower())
    return f"there is no resource {plural}" + (
        f"; did you mean {known}?" if known else did_you_mean(plural, plurals())
    )


class Call(NamedTuple):
    """A request for a resource, an event of a watch if `event` names its type, or a commit to the store."""

    verb: str
    resource: str  # plural
    group: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    user: str = ""
    event: str = ""  # ADDED, MODIFIED, DELETED, BOOKMARK, ERROR
    commit: bool = False  # an API server writes to its store, for any reason

    @property
    def is_local(self) -> bool:
        """A kubelet's call on its node, of a driver or of its container runtime."""
        return not self.group and self.resource in (PLUGINS, RUNTIME)

    @property
    def kind(self) -> str:
        """Verb and resource, by which a fault can be put there: `update resourceclaims/status`, and `update
        widgets.example.com` of one that needs its group, because no release has it."""
        resource = self.resource
        if self.group and resource not in plurals():
            resource = f"{resource}.{self.group}"
        if self.subresource:
            resource = f"{resource}/{self.subresource}"
        if self.commit:
            return f"commit: {self.verb} {resource}"
        return f"{self.event} event of {resource}" if self.event else f"{self.verb} {resource}"

    def __str__(self) -> str:
        place = "/".join(part for part in (self.namespace, self.name) if part)
        return f"{self.kind} {place}" if place else self.kind


def call_of(method: str, target: str, body: bytes | None = None, user: str = "") -> Call | None:
    """None if the path names no resource.

    The name in a create is read from the `body`. Source: k8s.io/apiserver/pkg/endpoints/request/
    requestinfo.go, 1.36, as far as clients use it.
    """
    path, _, query = target.partition("?")
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts[0] == "api" and len(parts) > 2:
        group, rest = "", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, rest = parts[1], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    resource, name, subresource = [*rest, "", ""][:3]
    verb = _VERBS.get(method, method.lower())
    if not name and verb == "get":
        verb = "watch" if "watch=true" in query.split("&") or "watch=1" in query.split("&") else "list"
    elif not name and verb == "delete":
        verb = "deletecollection"
    elif not name and verb == "create":
        name = _name_in(body)
    return Call(verb, resource, group, subresource, namespace, name, user)


def _name_in(body: bytes | None) -> str:
    """Empty if the object has no name yet, or the body is neither JSON nor protobuf."""
    if body is not None and body.startswith(MAGIC):
        return namespace_and_name(raw_object(body))[1]
    try:
        value = orjson.loads(body or b"")
    except orjson.JSONDecodeError:
        return ""
    metadata = value.get("metadata") if isinstance(value, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


def event_of(watch: Call, line: bytes) -> Call:
    """`watch` is the request that the line answers; a line that cannot be read counts as an ERROR event."""
    try:
        value = orjson.loads(line)
        kind, metadata = str(value["type"]), value["object"].get("metadata") or {}
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        return watch._replace(event="ERROR")
    return watch._replace(
        event=kind, namespace=metadata.get("namespace") or "", name=metadata.get("name") or ""
    )


class Kind(StrEnum):
    """The effects that a fault can have."""

    ANSWER = "answer"  # the call is answered with an error, and not made
    DROP = "drop"  # the request, its answer or the connection of a watch is lost
    DELAY = "delay"  # the call is made later, an event of a watch arrives later
    STALE = "stale"  # events of a watch are held back
    CRASH = "crash"  # the component dies, as by SIGKILL
    OUTAGE = "outage"  # the API server does not answer, or this component does not reach it


@dataclass(frozen=True, slots=True)
class Selector:
    """Selects the calls of a fault. Empty fields are not compared.

    As in RBAC, a resource without `subresource` is the object itself. Without a resource all are meant but
    leases and events.
    """

    verbs: tuple[str, ...] = ()
    resource: str = ""  # plural or *
    group: str | None = None
    subresource: str = ""  # or *
    namespace: str = ""
    name: str = ""
    user: str = ""
    event: str = ""  # the type of an event, or *; without, requests are meant
    commit: bool = False  # of an API server: its writes to the store

    def selects(self, call: Call) -> bool:
        if (bool(self.event), self.commit) != (bool(call.event), call.commit):
            return False
        if self.verbs and call.verb not in self.verbs:
            return False
        if call.is_local and not self.verbs and self.resource != call.resource:
            return False  # selected by name alone, or as calls of the runtime
        if self.event not in ("", ANY, call.event):
            return False
        return self._selects_resource(call) and self._selects_object(call)

    def _selects_resource(self, call: Call) -> bool:
        if not self.resource:
            return call.resource not in PERIODIC and self.subresource in ("", ANY, call.subresource)
        if self.resource not in (ANY, call.resource) or self.group not in (None, call.group):
            return False
        if self.resource == ANY and not self.subresource:
            return True
        return self.subresource in (ANY, call.subresource)

    def _selects_object(self, call: Call) -> bool:
        wanted = (self.namespace, call.namespace), (self.name, call.name), (self.user, call.user)
        return all(not want or want == have for want, have in wanted)

    def __str__(self) -> str:
        verbs = "any write" if self.verbs in (WRITES, COMMITS) else "/".join(self.verbs) or "any verb"
        resource = self.resource if self.resource not in ("", ANY) else "any resource"
        text = f"{verbs} {resource}{f'/{self.subresource}' if self.subresource else ''}"
        if self.event:
            kind = "any event" if self.event == ANY else f"{self.event} event"
            text = f"{kind} of {resource}"
        place = "/".join(part for part in (self.namespace, self.name) if part)
        return f"{text}{f' {place}' if place else ''}{f' by {self.user}' if self.user else ''}"


@dataclass(frozen=True, slots=True)
class Timing:
    """Limits the selected calls to those at which a fault fires.

    From the `nth` on, each `every`-th, each with `probability`; at most `times`, and only for `seconds` after
    it fired first. `seed` belongs to the fault alone: taking another away changes nothing here.
    """

    nth: int = 1
    every: int = 1
    probability: float = 1.0
    times: int | None = None
    seconds: float | None = None
    seed: int = 0

    @property
    def counts(self) -> bool:
        """True if the number of a call matters."""
        return (self.nth, self.every, self.probability, self.times) != (1, 1, 1.0, None)


@dataclass(frozen=True, slots=True)
class Effect:
    """`place` is request, answer or connection of a drop, before or after of a crash, refuse or hang of an
    outage. `delay` is a range in seconds.
    """

    kind: Kind
    place: str = ""
    code: int = 0
    message: str = ""
    retry_after: int | None = None
    delay: tuple[float, float] = (0.0, 0.0)

    def __str__(self) -> str:
        match self.kind:
            case Kind.ANSWER:
                return f"answered {self.code}"
            case Kind.DROP:
                return f"{self.place} lost"
            case Kind.DELAY:
                low, high = self.delay
                return f"delayed {low:g} s" if low == high else f"delayed {low:g} to {high:g} s"
            case Kind.STALE:
                return "held back"
            case Kind.CRASH:
                return f"crash {self.place}"
            case _:
                return "API server unreachable" if self.place == "refuse" else "API server silent"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of one component; an `optional` one may never fire."""

    id: str
    component: str
    effect: Effect
    where: Selector = field(default_factory=Selector)
    when: Timing = field(default_factory=Timing)
    at_once: bool = False  # it fires when it is set, without a call
    optional: bool = False

    def __str__(self) -> str:
        if self.at_once:
            return f"{self.component}: {self.effect}"
        return f"{self.component}: {self.where}, {_ordinal(self.when)}{self.effect}"


def _ordinal(when: Timing) -> str:
    parts = []
    if when.nth != 1 or when.times == 1:
        parts.append(f"call {when.nth}")
    if when.every != 1:
        parts.append(f"each {when.every}th")
    if when.probability != 1.0:
        parts.append(f"with probability {when.probability:g}")
    return f"{', '.join(parts)}: " if parts else "each: "


@dataclass(frozen=True, slots=True)
class FaultReport:
    """A fault, the numbers of calls that it selected and of firings, and its component's calls since.

    `obstacle` is the reason why it cannot fire any more, empty if it can: its component became another one.
    """

    fault: Fault
    matched: int = 0
    fired: int = 0
    seen: Mapping[str, int] = field(default_factory=dict)  # calls by verb and resource
    obstacle: str = ""

    @property
    def missed(self) -> bool:
        return not self.fired and not self.fault.optional

    @property
    def state(self) -> str:
        if self.obstacle:
            return f"cannot fire: {self.obstacle}"
        return "fired" if self.fired else "armed"

    def as_json(self) -> dict[str, Any]:
        fault = self.fault
        return {
            "id": fault.id,
            "component": fault.component,
            "fault": str(fault).removeprefix(f"{fault.component}: "),
            "fired": self.fired,
            "calls": self.matched,
            "state": self.state,
        }

    def missing(self) -> str:
        """Reports a fault that never fired, with the calls that were made instead."""
        if self.obstacle:
            return f"fault {self.fault.id} cannot fire ({self.fault}): {self.obstacle}"
        calls = f"{self.matched} call{'' if self.matched == 1 else 's'}" if self.matched else "no call"
        return (
            f"fault {self.fault.id} never fired ({self.fault}); it selected {calls}. "
            f"{self.fault.component} made since: {self._calls()}"
        )

    def _calls(self) -> str:
        resource = self.fault.where.resource
        known = [(kind, count) for kind, count in self.seen.items() if count]
        known.sort(key=lambda pair: (not resource or resource not in pair[0], -pair[1], pair[0]))
        shown = [f"{count} {kind}" for kind, count in known[:_SHOWN]]
        more = len(known) - len(shown)
        return ", ".join(shown) + (f" and {more} other kinds" if more else "") if shown else "no calls"
