"""Webhooks behind Services are called through the network of pods."""

import pytest
from pod_network import pod_network
from server_in_process import Caller, close_server, open_server
from webhook_server import BUNDLE, hook_server

from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.apiserver.webhooks.client import CallError, WebhookClient
from kubeskew.apiserver.webhooks.endpoints import ServiceResolver
from kubeskew.kubelet.containers.host.network.endpoints import Endpoint
from kubeskew.kubelet.containers.host.network.service_ports import CLUSTER, Listen, Target
from kubeskew.kubelet.containers.host.network.service_proxy import ServiceProxy

REVIEW = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1"}}


@pytest.fixture
def network():
    with pod_network() as agent:
        yield agent


async def test_service_in_a_network(network, tmp_path):
    """A webhook is reached at its Service's cluster IP, which refuses connections without endpoints."""
    server = await open_server()
    body = {"metadata": {"name": "hook"}, "spec": {"ports": [{"port": 443}]}}
    made = (await Caller(server).post("/api/v1/namespaces/default/services", body)).body
    address = made["spec"]["clusterIP"]
    clock = SystemClock()
    client = WebhookClient(ServiceResolver(server.services.store, {}, network), clock)
    proxy = ServiceProxy(network, lambda _: "", clock, SeededEntropy(1))
    service = {"namespace": "default", "name": "hook", "port": 443, "path": "/x"}
    with pytest.raises(CallError) as failure:
        await client.post({"service": service, "caBundle": BUNDLE}, REVIEW, 5)
    assert failure.value.message.endswith(f": dial tcp {address}:443: connect: connection refused")
    async with hook_server(tmp_path) as hook:
        target = Target((Endpoint("127.0.0.1", hook.port),), is_outside=True)
        await proxy.sync({Listen(CLUSTER, address, 443, "TCP"): target})
        answer = await client.post({"service": service, "caBundle": BUNDLE}, REVIEW, 5)
        assert answer["response"]["allowed"]
        assert hook.requests[0][2]["Host"] == "hook.default.svc:443"
        with pytest.raises(CallError, match="certificate signed by unknown authority"):
            await client.post({"service": service}, REVIEW, 5)
        await client.close()
        await proxy.close()
    await close_server(server)
