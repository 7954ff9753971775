"""The scheduler's role lets it read all that it follows."""

import pytest
from scheduling_cluster import Cluster

from kubeskew.apimachinery.client.refs import scheduling_context_ref
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import SUPPORTED, Version
from kubeskew.apiserver.authorization.default_roles import DefaultRoles
from kubeskew.apiserver.authorization.rbac import rules_of

USER = "system:kube-scheduler"


def rules_for_the_scheduler(roles: DefaultRoles) -> list:
    bound = {
        binding["roleRef"]["name"]
        for binding in roles.cluster_role_bindings()
        if any(subject["name"] == USER for subject in binding.get("subjects", []))
    }
    return [
        rule for role in roles.cluster_roles() if role["metadata"]["name"] in bound for rule in rules_of(role)
    ]


@pytest.mark.looptime
@pytest.mark.parametrize("gates", [{}, {"AllAlpha": True, "AllBeta": True}], ids=["default", "all"])
@pytest.mark.parametrize("version", SUPPORTED, ids=str)
async def test_the_default_roles_let_the_scheduler_read_what_it_follows(version, gates):
    """At every release, regardless of the gates, for a scheduler that may not list something never begins."""
    cluster = Cluster(str(version), **gates)
    followed = {informer.ref for informer in cluster.service._informers._informers.values()}
    environment = cluster.environment
    rules = rules_for_the_scheduler(DefaultRoles(environment.gates))
    unreadable = [
        (str(ref), verb)
        for ref in followed
        for verb in ("list", "watch")
        if not any(rule.allows_kind(verb, ref.group, ref.plural, "") for rule in rules)
    ]
    assert followed
    assert unreadable == []


@pytest.mark.parametrize("minor", range(26, 32))
def test_the_default_roles_let_the_scheduler_talk_to_drivers(minor):
    """The scheduler may write contexts and the status of claims; the status of contexts is the drivers'."""
    version = Version(minor)
    roles = DefaultRoles(FeatureGates(version, {"DynamicResourceAllocation": True}))
    rules = rules_for_the_scheduler(roles)
    contexts = scheduling_context_ref(version)

    def may(verb, plural, subresource=""):
        return any(rule.allows_kind(verb, contexts.group, plural, subresource) for rule in rules)

    assert all(may(verb, contexts.plural) for verb in ("create", "update", "patch", "delete"))
    assert may("update", "resourceclaims", "status")
    assert not may("update", contexts.plural, "status")
