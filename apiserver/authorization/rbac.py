"""Authorizes by the stored roles and bindings (RBAC).

Source: k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/rbac.go, 1.36. What a user may do with a kind of
object is worked out once and remembered until a role or binding changes.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kubeskew.apiserver.authorization import NO_OPINION, Decision, Rules
from kubeskew.apiserver.authorization.bindings import Bindings, Grant
from kubeskew.apiserver.authorization.rules import Rule
from kubeskew.apiserver.caching.generations import TwoGenerationCache
from kubeskew.apiserver.http.request_info import RequestInfo
from kubeskew.apiserver.user import User

_USERS = 2_000  # pairs of user and namespace, twice
_QUESTIONS = 1_000  # kinds and verbs of each, twice
_What = tuple[str, str, str, str]


class _Answer(NamedTuple):
    """Holds the answer to a question about a kind of object: for any name, and before that for
    these names.
    """

    general: Decision
    named: dict[str, Decision]


class _UserRules:
    """Holds the rights of one user in one namespace, as far as they have been asked for."""

    def __init__(self, grants: Sequence[Grant]) -> None:
        self._grants = grants
        self._answers: TwoGenerationCache[_What, _Answer] = TwoGenerationCache(_QUESTIONS)
        self._paths: TwoGenerationCache[tuple[str, str], Decision] = TwoGenerationCache(_QUESTIONS)
        self._refused = _refused(grants)

    def decide(self, info: RequestInfo) -> Decision:
        if not info.is_resource:
            return self._decide_path(info.verb, info.path)
        what = (info.verb, info.group, info.resource, info.subresource)
        answer = self._answers.get(what)
        if answer is None:
            answer = self._answer(what)
            self._answers.put(what, answer)
        return answer.named.get(info.name, answer.general)

    def _answer(self, what: _What) -> _Answer:
        named: dict[str, Decision] = {}
        for grant in self._grants:
            allowed = Decision(True, f"RBAC: allowed by {grant.source}")
            for rule in grant.rules:
                if not rule.allows_kind(*what):
                    continue
                if not rule.names:
                    return _Answer(allowed, named)
                for name in rule.names:
                    named.setdefault(name, allowed)
        return _Answer(self._refused, named)

    def _decide_path(self, verb: str, path: str) -> Decision:
        found = self._paths.get((verb, path))
        if found is None:
            allowing = (
                grant for grant in self._grants for rule in grant.rules if rule.allows_path(verb, path)
            )
            grant = next(allowing, None)
            found = Decision(True, f"RBAC: allowed by {grant.source}") if grant else self._refused
            self._paths.put((verb, path), found)
        return found

    def rules(self) -> Rules:
        rules = [rule for grant in self._grants for rule in grant.rules]
        return Rules(
            tuple(_without(rule, "nonResourceURLs") for rule in rules if rule.resources),
            tuple(_path_rule(rule) for rule in rules if rule.paths),
            error=_aggregate(self._grants),
        )

    def held(self) -> tuple[list[Rule], str]:
        """Returns every rule, and what is wrong with the bindings."""
        return [rule for grant in self._grants for rule in grant.rules], _aggregate(self._grants)


class RBACAuthorizer:
    """Allows what a role bound to the user allows; has no opinion otherwise."""

    def __init__(self, bindings: Bindings) -> None:
        self.bindings = bindings
        self._generation = 0
        self._by_user: TwoGenerationCache[tuple[str, tuple[str, ...], str], _UserRules] = TwoGenerationCache(
            _USERS
        )

    def authorize(self, user: User, info: RequestInfo) -> Decision:
        return self._rules_of(user, info.namespace).decide(info)

    def rules(self, user: User, namespace: str) -> Rules:
        return self._rules_of(user, namespace).rules()

    def held(self, user: User, namespace: str) -> tuple[list[Rule], str]:
        """Returns the rules that a user holds in a namespace (empty: everywhere), and what could not be found
        out.
        """
        return self._rules_of(user, namespace).held()

    def _rules_of(self, user: User, namespace: str) -> _UserRules:
        generation = self.bindings.refresh()
        if generation != self._generation:
            self._generation, self._by_user = generation, TwoGenerationCache(_USERS)
        key = (user.name, user.groups, namespace)
        rules = self._by_user.get(key)
        if rules is None:
            grants = list(self.bindings.grants(user, ""))
            if namespace:
                grants += self.bindings.grants(user, namespace)
            rules = _UserRules(grants)
            self._by_user.put(key, rules)
        return rules


def _refused(grants: Sequence[Grant]) -> Decision:
    errors = _aggregate(grants)
    return Decision(False, f"RBAC: {errors}") if errors else NO_OPINION


def _aggregate(grants: Sequence[Grant]) -> str:
    """Returns several errors as Go's aggregate prints them: each once."""
    errors = list(dict.fromkeys(grant.error for grant in grants if grant.error))
    return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]" if errors else ""


def _without(rule: Rule, field: str) -> dict[str, list[str]]:
    return {name: values for name, values in rule.as_object().items() if name != field}


def _path_rule(rule: Rule) -> dict[str, list[str]]:
    return {"verbs": list(rule.verbs), "nonResourceURLs": list(rule.paths)}
