"""Asks the authorizers of one server in order: masters first, components that announce themselves last.

Components announce themselves at COMPONENTS_PATH, which upstream does not have, hence no role for it. The
authorizer of announcements goes by the user's name, as that of nodes does, so that a component can announce
its start before the roles of a new cluster are written. Roles decide who reads.

Source: k8s.io/apiserver/pkg/authorization/union/union.go and authorizerfactory/builtin.go, 1.36.
"""

from collections.abc import Sequence

from kubeskew.apimachinery.environment import COMPONENTS_PATH, Environment
from kubeskew.apiserver.authorization import NO_OPINION, Authorizer, Decision, Rules
from kubeskew.apiserver.authorization.default_roles import DefaultRoles
from kubeskew.apiserver.authorization.graph import Graph
from kubeskew.apiserver.authorization.node import NodeAuthorizer, node_of
from kubeskew.apiserver.authorization.rbac import Bindings, RBACAuthorizer, Rule
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.http.request import RequestInfo
from kubeskew.apiserver.serviceaccount import USER_PREFIX
from kubeskew.apiserver.storage.interfaces import Store
from kubeskew.apiserver.user import MASTERS_GROUP, User

_USERS = {
    "system:kube-scheduler": "scheduler",
    "system:kube-controller-manager": "controller-manager",
    "system:kube-proxy": "network",  # which does its work
}
_DRIVERS = f"{USER_PREFIX}kube-system:"
_CONTROLLERS = "driver-controller."  # prefix of the accounts of drivers' controllers
_ADD_ONS = frozenset({"metrics-server"})  # whose accounts are named after them
_ALLOWED = Decision(True)


def component_of(user: User) -> str:
    """Empty if no component speaks as `user`."""
    if node := node_of(user):
        return f"kubelet/{node}"
    if driver := user.name.removeprefix(_DRIVERS) if user.name.startswith(_DRIVERS) else "":
        if driver in _ADD_ONS:
            return driver
        if driver.startswith(_CONTROLLERS):
            return f"driver-controller/{driver.removeprefix(_CONTROLLERS)}"
        return f"driver/{driver}"
    return _USERS.get(user.name, "")


class AnnouncerAuthorizer:
    """Allows components to post announcements; the handler checks that each speaks of itself alone."""

    def authorize(self, user: User, info: RequestInfo) -> Decision:
        posted = not info.is_resource and info.verb == "post" and info.path == COMPONENTS_PATH
        return Decision(True) if posted and component_of(user) else NO_OPINION

    def rules(self, _user: User, _namespace: str) -> Rules:
        return Rules()


class UnionAuthorizer:
    """The first authorizer that allows or denies decides; without one, the reasons of all are joined."""

    def __init__(self, authorizers: Sequence[Authorizer]) -> None:
        self._authorizers = tuple(authorizers)

    def authorize(self, user: User, info: RequestInfo) -> Decision:
        if MASTERS_GROUP in user.groups:
            return _ALLOWED
        reasons = []
        for authorizer in self._authorizers:
            decision = authorizer.authorize(user, info)
            if decision.allowed or decision.denied:
                return decision
            if decision.reason:
                reasons.append(decision.reason)
        return Decision(False, "\n".join(reasons))

    def rules(self, user: User, namespace: str) -> Rules:
        """Masters have their rules from the role cluster-admin."""
        found = [authorizer.rules(user, namespace) for authorizer in self._authorizers]
        errors = list(dict.fromkeys(rules.error for rules in found if rules.error))
        return Rules(
            tuple(rule for rules in found for rule in rules.resources),
            tuple(rule for rules in found for rule in rules.paths),
            any(rules.incomplete for rules in found),
            errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]" if errors else "",
        )


class Access(UnionAuthorizer):
    """Authorizes as `--authorization-mode=Node,RBAC`; `rbac` also knows which rules a user holds."""

    def __init__(self, store: Store, environment: Environment) -> None:
        rules = map(Rule.of, DefaultRoles(environment.gates).rules_of("system:node"))
        self.rbac = RBACAuthorizer(Bindings(store))
        node = NodeAuthorizer(Graph(store), Features.of(environment.gates).accounts, tuple(rules))
        super().__init__([node, self.rbac, AnnouncerAuthorizer()])
