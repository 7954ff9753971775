"""Tests the proxies to nodes, pods and services, and the credentials that they pass on."""

import json

import pytest
from streaming_node import PODS, Bench

from kubeskew.apiserver.http.request import Request
from kubeskew.apiserver.nodes.proxy import passed_on


async def test_proxies(bench: Bench):
    """Pods, services and nodes; a path that is empty is redirected."""
    status, text = await bench.read(f"{PODS}/p:80/proxy/some/path?x=1")
    assert (status, json.loads(text)["path"]) == (200, "/some/path?x=1")
    answer = await bench.api.get(f"{PODS}/p/proxy?x=1")
    assert (answer.status, answer.headers["Location"]) == (301, f"{PODS}/p/proxy/?x=1")
    assert await bench.read("/api/v1/nodes/node-1/proxy/healthz") == (200, "ok")
    services = "/api/v1/namespaces/default/services"
    service = {"metadata": {"name": "s"}, "spec": {"selector": {"a": "b"}, "ports": [{"port": 8080}]}}
    assert (await bench.api.post(services, {"apiVersion": "v1", "kind": "Service", **service})).status == 201
    status, text = await bench.read(f"{services}/s:9/proxy/")
    assert json.loads(text)["message"] == 'no service port 9 found for service "s"'
    pod = (await bench.api.get(f"{PODS}/p")).body
    endpoints = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "s"},
        "subsets": [
            {
                "addresses": [
                    {"ip": pod["status"]["podIP"], "targetRef": {"namespace": "default", "name": "p"}}
                ],
                "ports": [{"port": 80}],
            }
        ],
    }
    made = await bench.api.post("/api/v1/namespaces/default/endpoints", endpoints)
    assert made.status == 201, made.body
    status, text = await bench.read(f"{services}/s:8080/proxy/hi")
    assert (status, json.loads(text)["pod"]) == (200, "p")


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_proxies_take_every_method(bench: Bench, method: str):
    """A pod's proxy passes on the methods of upstream's proxy; only GET and HEAD are redirected."""
    answer = await bench.api(method, f"{PODS}/p:80/proxy/a")
    assert answer.status == 200
    assert method == "HEAD" or answer.body["method"] == method
    bare = await bench.api(method, f"{PODS}/p:80/proxy")
    assert bare.status == (301 if method in {"GET", "HEAD"} else 200)
    refused = await bench.api("TRACE", f"{PODS}/p:80/proxy/a")
    assert refused.status == 405


async def test_endpoints_lead_to_pods_of_their_namespace_only(bench: Bench):
    """A user who writes endpoints cannot lead the server to other namespaces or arbitrary addresses."""
    ip = (await bench.api.get(f"{PODS}/p")).body["status"]["podIP"]
    assert (await bench.api.post("/api/v1/namespaces", {"metadata": {"name": "other"}})).status == 201
    for place, address in (
        ("default", {"ip": ip}),
        ("default", {"ip": "10.1.2.3", "targetRef": {"namespace": "default", "name": "p"}}),
        ("other", {"ip": ip, "targetRef": {"namespace": "default", "name": "p"}}),
    ):
        there = f"/api/v1/namespaces/{place}"
        endpoints = {
            "metadata": {"name": "e"},
            "subsets": [{"addresses": [address], "ports": [{"port": 80}]}],
        }
        assert (await bench.api.post(f"{there}/endpoints", endpoints)).status == 201
        status, text = await bench.read(f"{there}/services/e/proxy/")
        assert (status, json.loads(text)["message"]) == (503, 'no endpoints available for service "e"')
        await bench.api.delete(f"{there}/endpoints/e")


async def test_missing_endpoints_are_reported_as_the_service(bench: Bench):
    """A proxy request for a service without endpoints is answered that the service is not found."""
    status, text = await bench.read("/api/v1/namespaces/default/services/none/proxy/")

    assert (status, json.loads(text)["message"]) == (404, 'services "none" not found')


@pytest.mark.parametrize("port", ["22", "x", "99999"])
async def test_other_ports_of_a_local_node_are_not_reached(bench: Bench, port: str):
    """A node that is on the server's own machine is asked at its kubelet's port alone."""
    status, text = await bench.read(f"/api/v1/nodes/node-1:{port}/proxy/")
    assert (status, json.loads(text)["message"]) == (400, "address not allowed")


def test_credentials_are_not_passed_on():
    """A backend learns neither the client's token nor whom it acts as."""
    headers = {
        "Authorization": "Bearer secret",
        "Impersonate-User": "me",
        "X-Remote-Group": "system:masters",
        "Sec-WebSocket-Protocol": "v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.c2VjcmV0",
        "Accept": "text/plain",
    }
    kept = [("accept", "text/plain"), ("Sec-WebSocket-Protocol", "v4.channel.k8s.io")]
    assert passed_on(Request.of("GET", "/", headers)) == kept
