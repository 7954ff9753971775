"""Verb, resource and names of a request, read from its method, path and query once.

Source: k8s.io/apiserver/pkg/endpoints/request/requestinfo.go, 1.36.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

_VERBS = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_SPECIAL_PREFIXES = frozenset({"proxy", "watch"})
_SELECTING = frozenset({"list", "watch", "deletecollection"})
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


class RequestInfo(NamedTuple):
    """`verb` is upstream's: get, list, watch, create, update, patch, delete, deletecollection, proxy.

    For a non-resource request `verb` is the method in lower case and all else but `path` is empty.


    """

    is_resource: bool
    path: str
    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    parts: tuple[str, ...] = ()
    field_selector: str = ""  # as the client wrote it
    label_selector: str = ""

    @property
    def is_long_running(self) -> bool:
        """Watches and logs, for example, may outlive all deadlines."""
        return self.verb in {"watch", "proxy"} or self.is_connection

    @property
    def is_connection(self) -> bool:
        """Connections transfer bytes of a container, a service or a node."""
        return self.subresource in _CONNECTIONS

    @property
    def is_mutating(self) -> bool:
        """Writes count against the limit of writes in flight."""
        return self.verb not in {"get", "list", "watch"}


_CONNECTIONS = frozenset({"log", "exec", "attach", "portforward", "proxy"})


def parse(method: str, path: str, query: Mapping[str, list[str]]) -> RequestInfo:
    """`path` is decoded. Raises ValueError for a bare special prefix."""
    info = _without_query(method, path)
    if not query or not info.is_resource or info.verb not in _SELECTING:
        return info
    verb = "watch" if info.verb == "list" and _is_watch(query) else info.verb
    fields, labels = ((query.get(name) or [""])[0] for name in ("fieldSelector", "labelSelector"))
    name = info.name or _name_of_selector(fields)
    return info._replace(verb=verb, name=name, field_selector=fields, label_selector=labels)


@lru_cache(maxsize=1024)
def _without_query(method: str, path: str) -> RequestInfo:
    """Cached: most requests without parameters are for few paths."""
    plain = RequestInfo(False, path, method.lower())
    parts = path.strip("/").split("/")  # parts may be empty
    if len(parts) < 3 or parts[0] not in {"api", "apis"}:
        return plain
    if parts[0] == "apis":
        if len(parts) < 4:
            return plain
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        group, version, rest = "", parts[1], parts[2:]
    verb = _VERBS.get(method, "")
    if rest[0] in _SPECIAL_PREFIXES:
        if len(rest) < 2:
            raise ValueError("unable to determine kind and namespace from url")
        verb, rest = rest[0], rest[1:]
    namespace, rest = _namespace(rest)
    resource, name, subresource = _split(rest)
    if not name and verb == "get":
        verb = "list"
    elif not name and verb == "delete":
        verb = "deletecollection"
    return RequestInfo(True, path, verb, group, version, resource, subresource, namespace, name, tuple(rest))


def _namespace(rest: list[str]) -> tuple[str, list[str]]:
    """Splits off the namespace. A namespace itself is in the namespace of its name."""
    if rest[0] != "namespaces":
        return "", rest
    if len(rest) == 1:
        return "", rest
    if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
        return rest[1], rest[2:]
    return rest[1], rest


def _split(rest: list[str]) -> tuple[str, str, str]:
    padded = [*rest[:3], "", "", ""]
    return padded[0], padded[1], padded[2]


def _is_watch(query: Mapping[str, list[str]]) -> bool:
    """Converts a boolean parameter as Go does: all but empty, `false` and `0` is true."""
    if "watch" not in query:
        return False
    return query["watch"][0].lower() not in {"false", "0"}


def _name_of_selector(fields: str) -> str:
    for term in fields.split(","):
        field, _, value = term.partition("=")
        if field == "metadata.name" and not value.startswith("!"):
            return value.removeprefix("=")
    return ""
