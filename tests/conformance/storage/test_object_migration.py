"""`kubeskew storage migrate`: all stored objects are put once more."""

import pytest
from in_process_transport import real_cluster

from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.storage.records import Author, Change, Key, Verb
from kubeskew.conformance.storage.migration import migrate

AUTHOR = Author("test", "test", "", "", "")
POLICIES = "validatingadmissionpolicies.admissionregistration.k8s.io"
ROLE = (
    b'{"kind":"ClusterRole","apiVersion":"rbac.authorization.k8s.io/v1","metadata":{"name":"a?b","uid":"u"},'
    b'"rules":null,"gone":1}'
)


@pytest.fixture
async def cluster():
    """A server of 1.28, which has a resource in a version that its group does not prefer."""
    config = {"admissionregistration.k8s.io/v1beta1": True}
    gates = {"ValidatingAdmissionPolicy": True}
    async with real_cluster(Version(28), gates, started=False, runtime_config=config) as made:
        yield made


async def test_a_resource_of_another_version_than_the_preferred_one_is_found(cluster):
    """A resource that only a version has which its group does not prefer is written again with the others."""
    ref = Ref("admissionregistration.k8s.io", "v1beta1", POLICIES.partition(".")[0], False, "")
    constraints = {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}]}
    constraints["resourceRules"][0]["resources"] = ["pods"]
    spec = {"matchConstraints": constraints, "validations": [{"expression": "true"}]}
    await cluster.client.create(ref, {"metadata": {"name": "p"}, "spec": spec})
    [named] = await migrate(cluster.client, [POLICIES], lambda _: None)
    every = {made.resource: made.objects for made in await migrate(cluster.client, [], lambda _: None)}
    assert (named.objects, named.failed) == (1, [])
    assert every[POLICIES] == 1
    assert every["deployments.apps"] == 0


async def test_names_are_quoted(cluster):
    """An object whose name has a question mark is written again, not one with the first half of its name."""
    key = Key("clusterroles.rbac.authorization.k8s.io", "", "a?b")
    now = cluster.environment.clock.now()
    await cluster.server.services.store.write(Change(Verb.CREATE, key, "u", ROLE, 0, AUTHOR, now))
    [made] = await migrate(cluster.client, ["clusterroles"], lambda _: None)
    assert (made.rewritten, made.failed) == (1, [])
