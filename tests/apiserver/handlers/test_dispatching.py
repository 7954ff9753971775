"""Requests come to the right handlers."""

import pytest
from server_in_process import Caller


@pytest.mark.parametrize("verb", ["get", "create", "update", "patch", "delete"])
async def test_what_nodes_would_answer_is_not_made_up(api: Caller, verb: str):
    """A pod without a node has no log, and nothing to talk to; what is answered is never the pod itself."""
    method = {"get": "GET", "create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}[verb]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    await api.post("/api/v1/namespaces/default/pods", pod)
    for name in ("log", "exec", "attach", "portforward", "proxy"):
        answer = await api(method, f"/api/v1/namespaces/default/pods/p/{name}")
        assert answer.status in (204, 400, 405)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/namespaces/default", 200),
        ("GET", "/api/v1/namespaces/default/namespaces", 404),
        ("GET", "/api/v1/namespaces/default/namespaces/kube-system", 404),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("POST", "/api/v1/pods", 405),
        ("POST", "/api/v1/bindings", 404),
        ("GET", "/api/v1/namespaces/default/bindings", 405),
        ("POST", "/apis/authorization.k8s.io/v1/localsubjectaccessreviews", 404),
    ],
)
async def test_where_a_resource_is(api: Caller, method: str, path: str, status: int):
    """Inside a namespace or not; only what can be listed is found in all of them."""
    assert (await api(method, path, None if method == "GET" else {})).status == status
