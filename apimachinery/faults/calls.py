"""Calls of the API as faults see them: requests, events of watches and commits of an API server."""

from typing import NamedTuple
from urllib.parse import unquote

import orjson

from kubeskew.apimachinery.faults.names import plurals

COMMITS = ("create", "update", "delete")  # as the log names them
WRITES = ("create", "update", "patch", "delete", "deletecollection")
VERBS = ("get", "list", "watch", *WRITES)
# Those of a kubelet to a driver on its node, by the name of the method (k8s.io/kubelet/pkg/apis/dra).
PLUGIN_CALLS = ("NodePrepareResources", "NodeUnprepareResources")
PLUGINS = "plugins"  # what they are calls of

_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NAMESPACE_SUBRESOURCES = ("status", "finalize")


class Call(NamedTuple):
    """A request for a resource, an event of a watch if `event` names its type, or a commit."""

    verb: str
    resource: str  # plural
    group: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    user: str = ""
    event: str = ""  # ADDED, MODIFIED, DELETED, BOOKMARK, ERROR
    commit: bool = False  # an API server writes to its store, whatever asked for it

    @property
    def kind(self) -> str:
        """Returns verb and resource, by which a fault can be put there: `update resourceclaims/status`, and
        `update widgets.example.com` of one that needs its group, because no release has it."""
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
    """Returns the call that a request makes; None if its path names no resource.

    Of a create, the object's name stands in the `body`. Source: k8s.io/apiserver/pkg/endpoints/request/
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
    """Returns the name of the object in a body, empty if it has none yet or is not JSON."""
    try:
        value = orjson.loads(body or b"")
    except orjson.JSONDecodeError:
        return ""
    metadata = value.get("metadata") if isinstance(value, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


def event_of(watch: Call, line: bytes) -> Call:
    """Returns the event that a line of a watch tells; `watch` is the request."""
    try:
        value = orjson.loads(line)
        kind, metadata = str(value["type"]), value["object"].get("metadata") or {}
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        return watch._replace(event="ERROR")
    return watch._replace(
        event=kind, namespace=metadata.get("namespace") or "", name=metadata.get("name") or ""
    )
