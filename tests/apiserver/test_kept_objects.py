"""Objects that a cluster cannot be without come back while its server runs."""

import asyncio

import pytest
from server_in_process import Caller, close_server, open_server
from until import until

from kubeskew.apiserver import bootstrap

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
async def test_what_is_deleted_is_made_anew(monkeypatch, path: str):
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
