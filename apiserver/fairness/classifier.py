"""Classification of requests: the flow schema of each, and with it the priority level.

Source: k8s.io/apiserver/pkg/util/flowcontrol/{rule,formatting}.go and match in apf_controller.go, 1.36.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.caching.store_cache import TwoGenerationCache
from kubeskew.apiserver.http.request import Headers, RequestInfo
from kubeskew.apiserver.user import User

_REMEMBERED = 512  # users whose rules are known
_ACCOUNT = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class Flow:
    """`level` is the priority level's name; `headers` has the uids of schema and level, for the client."""

    schema: str
    level: str
    distinguisher: str
    headers: Headers


_Rule = tuple[Flow, Mapping[str, Any]]


class Classifier:
    """The first flow schema that matches counts, in their order."""

    def __init__(self, schemas: Iterable[Object], levels: Mapping[str, Object]) -> None:
        ordered = sorted(
            (schema for schema in schemas if _level_of(schema) in levels),
            key=lambda one: (one["spec"].get("matchingPrecedence") or 0, one["metadata"]["name"]),
        )
        self._rules = [
            (_flow(schema, levels[_level_of(schema)]), rule)
            for schema in ordered
            for rule in schema["spec"].get("rules") or ()
        ]
        self._of_users: TwoGenerationCache[tuple[str, tuple[str, ...]], list[_Rule]]
        self._of_users = TwoGenerationCache(_REMEMBERED)

    def classify(self, user: User, info: RequestInfo) -> Flow | None:
        return next((flow for flow, rule in self._rules_of(user) if _matches(rule, info)), None)

    def _rules_of(self, user: User) -> list[_Rule]:
        """Rules with the user as a subject are few of all, and the same for each request: they are cached."""
        key = user.name, user.groups
        found = self._of_users.get(key)
        if found is None:
            found = [
                (flow, rule)
                for flow, rule in self._rules
                if any(_is_subject(subject, user) for subject in rule.get("subjects") or ())
            ]
            self._of_users.put(key, found)
        return found


def _level_of(schema: Object) -> str:
    spec = schema.get("spec") or {}
    return (spec.get("priorityLevelConfiguration") or {}).get("name") or ""


def _flow(schema: Object, level: Object) -> Flow:
    method = (schema["spec"].get("distinguisherMethod") or {}).get("type") or ""
    headers = [
        ("X-Kubernetes-Pf-Flowschema-Uid", schema["metadata"]["uid"]),
        ("X-Kubernetes-Pf-Prioritylevel-Uid", level["metadata"]["uid"]),
    ]
    return Flow(schema["metadata"]["name"], level["metadata"]["name"], method, headers)


def _matches(rule: Mapping[str, Any], info: RequestInfo) -> bool:
    if info.is_resource:
        return any(_covers(resource_rule, info) for resource_rule in rule.get("resourceRules") or ())
    return any(_covers_path(path_rule, info) for path_rule in rule.get("nonResourceRules") or ())


def _is_subject(subject: Mapping[str, Any], user: User) -> bool:
    match subject.get("kind"):
        case "User":
            return (subject.get("user") or {}).get("name") in {"*", user.name}
        case "Group":
            name = (subject.get("group") or {}).get("name")
            return name == "*" or name in user.groups
        case "ServiceAccount":
            account = subject.get("serviceAccount") or {}
            namespace, _, name = user.name.removeprefix(_ACCOUNT).partition(":")
            named = user.name.startswith(_ACCOUNT) and namespace == account.get("namespace")
            return named and account.get("name") in {"*", name}
    return False


def _covers(rule: Mapping[str, Any], info: RequestInfo) -> bool:
    resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
    if not (
        _listed(rule.get("verbs"), info.verb)
        and _listed(rule.get("apiGroups"), info.group)
        and _listed(rule.get("resources"), resource)
    ):
        return False
    if not info.namespace:
        return bool(rule.get("clusterScope"))
    return _listed(rule.get("namespaces"), info.namespace)


def _covers_path(rule: Mapping[str, Any], info: RequestInfo) -> bool:
    if not _listed(rule.get("verbs"), info.verb):
        return False
    urls = rule.get("nonResourceURLs") or ()
    return any(
        url in {"*", info.path} or (url.endswith("/*") and info.path.startswith(url[:-1])) for url in urls
    )


def _listed(items: Sequence[str] | None, wanted: str) -> bool:
    return bool(items) and ("*" in items or wanted in items)  # type: ignore[operator]  # bool() said it is there
