"""APIServices: those of the server itself, and group versions that another server answers for."""

import asyncio
import base64

import pytest
from aiohttp import web
from server_in_process import Caller, close_server, open_server
from webhook_server import BUNDLE, hook_server

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
LIST = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": "metrics.example.com/v1",
    "resources": [
        {"name": "things", "singularName": "thing", "namespaced": True, "kind": "Thing", "verbs": ["get"]}
    ],
}


@pytest.fixture
async def call():
    server = await open_server()
    yield Caller(server)
    await close_server(server)


@pytest.fixture
async def hook(tmp_path):
    async with hook_server(tmp_path) as made:
        made.answer = lambda _: LIST
        yield made


def api_service(**spec):
    spec = {
        "group": "metrics.example.com",
        "version": "v1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "service": {"name": "hook", "namespace": "default"},
        "caBundle": BUNDLE,
        **spec,
    }
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"{spec['version']}.{spec['group']}"},
        "spec": {name: value for name, value in spec.items() if value is not None},
    }


def service(port):
    annotations = {"apiserver.kubeskew.io/local-address": f"127.0.0.1:{port}"}
    metadata = {"name": "hook", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 443}]}}


async def seen(call, name, wanted):
    """The first APIService of that name, as (type of event, object), that is `wanted`."""
    path = f"{SERVICES}?watch=1&resourceVersion=0&fieldSelector=metadata.name={name}"
    async with asyncio.timeout(5):
        async for kind, obj in call.watch(path):
            if wanted(kind, obj):
                return obj
    raise AssertionError


async def condition(call, reason):
    """The condition Available once it has this reason."""

    def wanted(_, obj):
        conditions = obj["status"].get("conditions") or [{}]
        return conditions[0].get("reason") == reason

    return (await seen(call, "v1.metrics.example.com", wanted))["status"]["conditions"][0]


async def test_local_services(call):
    """Every group version but the aggregator's has an APIService, available from the start."""
    items = {item["metadata"]["name"]: item for item in (await call.get(SERVICES)).body["items"]}
    assert {"v1.", "v1.apps", "v2.autoscaling"} <= items.keys()
    assert "v1.apiregistration.k8s.io" not in items
    core = items["v1."]
    assert core["metadata"]["labels"] == {"kube-aggregator.kubernetes.io/automanaged": "onstart"}
    assert core["spec"] == {"version": "v1", "groupPriorityMinimum": 18000, "versionPriority": 1}
    assert core["status"]["conditions"][0]["reason"] == "Local"


async def test_rules(call):
    """The name says version and group; a local one has no bundle."""
    body = api_service(service=None, versionPriority=0)
    body["metadata"]["name"] = "other"
    answer = await call.post(SERVICES, body)
    causes = [(one["field"], one["message"]) for one in answer.body["details"]["causes"]]
    name = 'must be `spec.version+"."+spec.group`: "v1.metrics.example.com"'
    size = len(base64.b64decode(BUNDLE))
    bundle = f'Invalid value: "{size} bytes": local APIServices may not have a caBundle'
    assert causes == [
        ("metadata.name", f'Invalid value: "other": {name}'),
        ("spec.versionPriority", "Invalid value: 0: must be positive and less than 1000"),
        ("spec.caBundle", bundle),
    ]


async def test_without_a_service(call):
    """A group version whose service does not exist is not available, and requests get a 503."""
    assert (await call.post(SERVICES, api_service())).status == 201
    found = await condition(call, "ServiceNotFound")
    assert found["status"] == "False"
    assert found["message"] == 'service/hook in "default" is not present'
    answer = await call.get("/apis/metrics.example.com/v1/namespaces/default/things")
    assert (answer.status, answer.raw) == (503, b"service unavailable\n")


async def test_proxy(call, hook):
    """Requests go to the other server, with who asks, and its answers come back."""
    await call.post("/api/v1/namespaces/default/services", service(hook.port))
    await call.post(SERVICES, api_service())
    await condition(call, "Passed")
    hook.requests.clear()
    hook.answer = lambda _: web.json_response({"kind": "Thing"}, status=201)
    path = "/apis/metrics.example.com/v1/namespaces/default/things?limit=5&a=b%20c"
    secret = {"authorization": "Bearer secret", "x_remote_user": "somebody"}
    secret["sec_websocket_protocol"] = "base64url.bearer.authorization.k8s.io.c2VjcmV0, v4"
    answer = await call.post(path, {"kind": "Thing"}, **secret)
    assert (answer.status, answer.body) == (201, {"kind": "Thing"})
    method, target, headers, body = hook.requests[0]
    assert (method, target) == ("POST", path.replace("%20", "+"))
    assert body == b'{"kind": "Thing"}'
    assert headers["X-Remote-User"] == "admin"
    assert not {"Authorization", "Sec-Websocket-Protocol"} & {name.title() for name in headers}
    assert headers["User-Agent"] == "tester/v1.36.0 (linux)"


async def test_discovery(call, hook):
    """A remote group is listed among the others, and its resources are its own server's to tell."""
    await call.post("/api/v1/namespaces/default/services", service(hook.port))
    await call.post(SERVICES, api_service())
    await condition(call, "Passed")
    groups = [group["name"] for group in (await call.get("/apis")).body["groups"]]
    assert groups[-1] == "metrics.example.com"
    assert (await call.get("/apis/metrics.example.com/v1")).body == LIST
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    item = (await call.get("/apis", accept=accept)).body["items"][-1]
    version = item["versions"][0]
    assert (version["version"], version["freshness"]) == ("v1", "Current")
    assert version["resources"][0]["resource"] == "things"
    assert version["resources"][0]["scope"] == "Namespaced"


async def test_definitions_get_services(call):
    """A custom group version has an APIService of low priority for as long as it is defined."""
    schema = {"openAPIV3Schema": {"type": "object"}}
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "foos", "kind": "Foo"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
    }
    body = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await call.post(path, {**body, "metadata": {"name": "foos.example.com"}, "spec": spec})
    obj = await seen(call, "v1.example.com", lambda kind, _: kind == "ADDED")
    assert obj["spec"]["groupPriorityMinimum"] == 1000
    await call.delete(f"{path}/foos.example.com")
    await seen(call, "v1.example.com", lambda kind, _: kind == "DELETED")
