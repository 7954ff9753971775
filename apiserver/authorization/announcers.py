"""Derives a user's component from its name, and lets it put events on the time line of the components.

Upstream has no such path, hence no role for it. As the node authorizer, this goes by the user's name, so
that a component can announce its start before the roles of a new cluster are written. Roles decide who reads.
"""

from kubeskew.apimachinery.announcements import COMPONENTS_PATH
from kubeskew.apiserver.authorization import NO_OPINION, Decision, Rules
from kubeskew.apiserver.authorization.node import node_of
from kubeskew.apiserver.http.request_info import RequestInfo
from kubeskew.apiserver.serviceaccount import USER_PREFIX
from kubeskew.apiserver.user import User

_USERS = {
    "system:kube-scheduler": "scheduler",
    "system:kube-controller-manager": "controller-manager",
}
_DRIVERS = f"{USER_PREFIX}kube-system:"
_CONTROLLERS = "driver-controller."  # prefix of the accounts of drivers' controllers
_ADD_ONS = frozenset({"metrics-server"})  # whose accounts are named after them


def component_of(user: User) -> str:
    """Returns the name of the component that speaks as `user`, empty if none does."""
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
        """Returns no rules: these rights are not listed."""
        return Rules()
