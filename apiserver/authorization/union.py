"""Asks the authorizers of a server one after the other; masters may do anything.

Source: k8s.io/apiserver/pkg/authorization/union/union.go and authorizerfactory/builtin.go, 1.36.
"""

from collections.abc import Sequence

from kubeskew.apiserver.authorization import Authorizer, Decision, Rules
from kubeskew.apiserver.http.request_info import RequestInfo
from kubeskew.apiserver.user import MASTERS_GROUP, User

_ALLOWED = Decision(True)


class UnionAuthorizer:
    """Decides by the first authorizer that allows or denies; without one, gives all reasons."""

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
        """Returns the rules of all authorizers; masters have theirs from the role cluster-admin."""
        found = [authorizer.rules(user, namespace) for authorizer in self._authorizers]
        errors = list(dict.fromkeys(rules.error for rules in found if rules.error))
        return Rules(
            tuple(rule for rules in found for rule in rules.resources),
            tuple(rule for rules in found for rule in rules.paths),
            any(rules.incomplete for rules in found),
            errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]" if errors else "",
        )
