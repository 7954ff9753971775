"""Objects that a cluster cannot be without come back while its server runs."""

import asyncio

import pytest
from server_in_process import Caller, close_server, open_server
from until import until

from kubeskew.apiserver import bootstrap
from kubeskew.apiserver.handlers.dispatch import Dispatcher
from kubeskew.apiserver.http.request import Request, Response
from kubeskew.apiserver.routes.paths import Paths

FLOWS = "/apis/flowcontrol.apiserver.k8s.io/v1"


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/default/services/kubernetes",
        "/api/v1/namespaces/default/endpoints/kubernetes",
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes",
        "/api/v1/namespaces/kube-node-lease",
        f"{FLOWS}/flowschemas/probes",
        f"{FLOWS}/prioritylevelconfigurations/workload-low",
    ],
)
async def test_what_is_deleted_is_made_again(monkeypatch, path: str):
    """The new object says what the old one did; once it is there, nothing more is written."""
    monkeypatch.setattr(bootstrap, "KEEPING_SECONDS", 0.01)
    server = await open_server()
    api = Caller(server)
    before = (await api.get(path)).body
    assert (await api.delete(path)).status == 200
    if path.endswith("kube-node-lease"):  # as the namespace controller does once it is empty
        terminating = (await api.get(path)).body
        done = await api.put(f"{path}/finalize", {**terminating, "spec": {"finalizers": []}})
        assert done.status == 200

    async def made():
        found = (await api.get(path)).body
        metadata = found["metadata"]
        changed = metadata.get("resourceVersion") not in {None, before["metadata"]["resourceVersion"]}
        return found if changed and "deletionTimestamp" not in metadata else None

    again = await until(made)
    for part in ("spec", "subsets", "endpoints", "ports"):
        assert again.get(part) == before.get(part)
    revision = await server.services.log.revision()
    await asyncio.sleep(0.1)
    assert await server.services.log.revision() == revision
    await close_server(server)


async def test_a_role_that_an_older_server_is_faster_with_gets_what_it_lacks():
    """Of two servers that start together the older makes the scheduler's role; its rules are completed."""
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    server = await open_server(36)
    api = Caller(server)
    full = (await api.get(f"{role}/system:kube-scheduler")).body
    older = [rule for rule in full["rules"] if rule.get("resources") != ["resourceclaims/binding"]]
    assert len(older) == len(full["rules"]) - 1
    assert (await api.delete(f"{role}/system:kube-scheduler")).status == 200
    dispatcher, raced = Dispatcher(server.services, Paths(server.services)), []

    async def behind(request: Request) -> Response:
        """Dispatches, when the other server has made the role."""
        if request.method == "POST" and request.path == role:  # no other is missing
            raced.append(
                await api.post(role, {**full, "metadata": {"name": "system:kube-scheduler"}, "rules": older})
            )
        return await dispatcher.dispatch(request)

    assert await bootstrap.run(server.services, behind, server.options, server.port)
    assert [answer.status for answer in raced] == [201]
    rules = (await api.get(f"{role}/system:kube-scheduler")).body["rules"]
    assert any(rule.get("resources") == ["resourceclaims/binding"] for rule in rules)
    await close_server(server)
