"""A server's own duties are done in the end, though the database takes no writes when they are due."""

import asyncio

import pytest
import server_in_process
from server_in_process import Caller, close_server, open_server
from until import until

from kubeskew.apiserver.server import APIServer
from kubeskew.apiserver.storage.interfaces import StorageError

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
DEFINITION = {
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}


class Outage:
    """Takes so many writes more, refuses all others until `end`, and counts these."""

    def __init__(self, server, writes):
        self._log = server.services.log
        self._append, self._left, self.refused = self._log.append, writes, 0
        self._log.append = self._refuse

    async def _refuse(self, change):
        if not self._left:
            self.refused += 1
            raise StorageError("database or disk is full")
        self._left -= 1
        return await self._append(change)

    def end(self):
        self._log.append = self._append


@pytest.fixture
async def api(server):
    return Caller(server)


async def is_established(api):
    definition = (await api.get(f"{DEFINITIONS}/widgets.example.com")).body
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(
        (condition["type"], condition["status"]) == ("Established", "True") for condition in conditions
    )


def widget(name):
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}}


@pytest.mark.parametrize("writes", [1, 2, 3])
async def test_a_definition_is_established_and_served(api, writes):
    """However many writes came through: its names, that it is established, and its APIService."""
    outage = Outage(api.server, writes)
    assert (await api.post(DEFINITIONS, DEFINITION)).status == 201
    await until(lambda: outage.refused)
    outage.end()

    await until(lambda: is_established(api))
    assert (await api.post(WIDGETS, widget("a"))).status == 201
    await until(lambda: found(api, f"{SERVICES}/v1.example.com"))


async def found(api, path):
    return (await api.get(path)).status == 200


@pytest.mark.parametrize("writes", [1, 2, 3, 4])
async def test_a_definition_goes_with_its_objects(api, writes):
    """Deleting goes on after an outage, wherever that began."""
    await api.post(DEFINITIONS, DEFINITION)
    await until(lambda: is_established(api))
    for name in "ab":
        assert (await api.post(WIDGETS, widget(name))).status == 201
    await until(lambda: found(api, f"{SERVICES}/v1.example.com"))
    outage = Outage(api.server, writes)
    assert (await api.delete(f"{DEFINITIONS}/widgets.example.com")).status == 200
    await until(lambda: outage.refused)
    outage.end()

    async def is_gone():
        return not await found(api, f"{DEFINITIONS}/widgets.example.com")

    async def is_unserved():
        return not await found(api, f"{SERVICES}/v1.example.com")

    await until(is_gone)
    await until(is_unserved)


async def test_a_policy_is_type_checked(api):
    """The status of a policy reports its types once the store's outage is over."""
    outage = Outage(api.server, 1)
    spec = {"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": "true"}]}
    assert (await api.post(POLICIES, {"metadata": {"name": "p"}, "spec": spec})).status == 201
    await until(lambda: outage.refused)
    outage.end()

    async def is_checked():
        return ((await api.get(f"{POLICIES}/p")).body.get("status") or {}).get("observedGeneration") == 1

    await until(is_checked)


@pytest.mark.parametrize("writes", [0, 5])
async def test_a_fresh_cluster_gets_all_that_it_should_have(tmp_path, monkeypatch, writes):
    """A server that starts while nothing can be written makes namespaces and roles once it can."""
    url = f"sqlite+aiosqlite:///{tmp_path / 'events.db'}"
    outages = []

    async def bootstrap(server):
        outages.append(Outage(server, writes))
        await real(server)

    real = APIServer.bootstrap
    monkeypatch.setattr(APIServer, "bootstrap", bootstrap)
    monkeypatch.setattr(server_in_process, "make_service_account", lambda _server: asyncio.sleep(0))
    server = await open_server(url=url)
    outages[0].end()
    api = Caller(server)

    await until(lambda: found(api, "/api/v1/namespaces/kube-node-lease"))
    await until(lambda: found(api, "/api/v1/namespaces/default/services/kubernetes"))
    await until(lambda: found(api, "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin"))
    await close_server(server)
