"""Decides whether a policy rule allows a request.

Source: k8s.io/kubernetes/pkg/apis/rbac/v1/evaluation_helpers.go and plugin/pkg/auth/authorizer/rbac/rbac.go,
1.36.
"""

from dataclasses import dataclass

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.http.request_info import RequestInfo

ALL = "*"


@dataclass(frozen=True, slots=True)
class Rule:
    """A PolicyRule. Empty `names` mean every name."""

    verbs: tuple[str, ...]
    groups: tuple[str, ...]
    resources: tuple[str, ...]
    names: tuple[str, ...]
    paths: tuple[str, ...]

    @classmethod
    def of(cls, rule: Object) -> "Rule":
        """Makes a rule from the object of a role's `rules`."""
        fields = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
        return cls(*(tuple(rule.get(name) or ()) for name in fields))

    def as_object(self) -> Object:
        """Returns the rule as an object of a role's `rules`."""
        fields = {
            "verbs": self.verbs,
            "apiGroups": self.groups,
            "resources": self.resources,
            "resourceNames": self.names,
            "nonResourceURLs": self.paths,
        }
        return {name: list(values) for name, values in fields.items() if values or name == "verbs"}

    def allows(self, info: RequestInfo) -> bool:
        """Decides whether the rule allows the request."""
        if not info.is_resource:
            return self.allows_path(info.verb, info.path)
        kind = self.allows_kind(info.verb, info.group, info.resource, info.subresource)
        return kind and (not self.names or info.name in self.names)

    def allows_kind(self, verb: str, group: str, resource: str, subresource: str) -> bool:
        """Decides whether the rule allows this on objects of that kind, names aside."""
        return (
            (ALL in self.verbs or verb in self.verbs)
            and (ALL in self.groups or group in self.groups)
            and self._covers(resource, subresource)
        )

    def _covers(self, resource: str, subresource: str) -> bool:
        if ALL in self.resources:
            return True
        if not subresource:
            return resource in self.resources
        return f"{resource}/{subresource}" in self.resources or f"*/{subresource}" in self.resources

    def allows_path(self, verb: str, path: str) -> bool:
        """Decides whether the rule allows this on a path that is no resource."""
        if ALL not in self.verbs and verb not in self.verbs:
            return False
        return any(path_matches(pattern, path) for pattern in self.paths)


def path_matches(pattern: str, path: str) -> bool:
    """Decides whether a pattern covers a path; `*` at its end stands for anything."""
    if pattern in {ALL, path}:
        return True
    return pattern.endswith("*") and path.startswith(pattern.rstrip("*"))


def rules_of(role: Object) -> tuple[Rule, ...]:
    """Returns the rules of a Role or ClusterRole."""
    return tuple(Rule.of(rule) for rule in role.get("rules") or ())
