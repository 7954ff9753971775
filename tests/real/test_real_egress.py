"""A real API server dials in the cluster: kubelets, webhooks by Service or URL, extension servers."""

import asyncio
import ssl
import urllib.request
from pathlib import Path

import pytest
from aiohttp import web
from asking import Local, config_map, eventually
from webhook_server import BUNDLE, allow, deny, hook_server

pytestmark = [pytest.mark.real, pytest.mark.cluster, pytest.mark.timeout(300)]
NAMESPACE = "/api/v1/namespaces/default"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
LABELS = {"hooked": "yes"}
CLUSTER = 'version: "1.36"\nmetricsServer: true\nnodes: [{}]\n'


@pytest.fixture
def local(tmp_path: Path, binaries: Path):
    local = Local(tmp_path / "state")
    file = tmp_path / "cluster.yaml"
    file.write_text(CLUSTER)
    local.run("up", "--config", str(file), "--binaries", str(binaries), "--real", "apiserver")
    yield local
    local.run("down", "--purge")


def configuration(client):
    hook = {
        "name": "hook.example.com",
        "clientConfig": client,
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
        ],
        "objectSelector": {"matchLabels": LABELS},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    kind = "ValidatingWebhookConfiguration"
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "h"},
        "webhooks": [hook],
    }


def service(name, annotations):
    metadata = {"name": name, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 443}]}}


def refusal(local):
    """The message of a create that the webhook is asked about; empty if it is admitted."""
    body = config_map("a")
    body["metadata"]["labels"] = LABELS
    status, answer = local.ask("POST", f"{NAMESPACE}/configmaps?dryRun=All", body)
    return "" if status == 201 else answer["message"]


def logs(local, pod):
    request = urllib.request.Request(
        f"https://127.0.0.1:{local.port()}{NAMESPACE}/pods/{pod}/log", headers=dict(local.headers())
    )
    tls = ssl.create_default_context(cafile=str(local.state / "ca.crt"))
    with urllib.request.urlopen(request, context=tls, timeout=30) as answer:
        return answer.status


def is_available(local, name):
    conditions = local.get(f"{SERVICES}/{name}").get("status", {}).get("conditions", ())
    return any(each["type"] == "Available" and each["status"] == "True" for each in conditions)


def kubelets_and_metrics(local):
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
           "spec": {"containers": [{"name": "c", "image": "i"}]}}  # fmt: skip
    local.create(f"{NAMESPACE}/pods", pod)
    eventually(lambda: local.get(f"{NAMESPACE}/pods/p")["status"]["phase"] == "Running")
    assert logs(local, "p") == 200
    assert is_available(local, "v1beta1.metrics.k8s.io")
    eventually(lambda: local.get("/apis/metrics.k8s.io/v1beta1/nodes")["items"])


def webhooks(local, hook):
    local.create(f"{NAMESPACE}/services", service("hook", {}))
    by_service = {"caBundle": BUNDLE, "service": {"namespace": "default", "name": "hook", "path": "/x"}}
    local.create(HOOKS, configuration(by_service))
    eventually(lambda: "connection refused" in refusal(local))
    address = local.get(f"{NAMESPACE}/services/hook")["spec"]["clusterIP"]
    assert refusal(local).endswith(
        f"apiserver.egress while dialing {address}:443, code 502: 502 dial tcp {address}:443: "
        "connect: connection refused"
    )
    there = local.get(f"{NAMESPACE}/services/hook")
    there["metadata"]["annotations"] = {"apiserver.kubeskew.io/local-address": f"127.0.0.1:{hook.port}"}
    assert local.ask("PUT", f"{NAMESPACE}/services/hook", there)[0] == 200
    assert refusal(local) == ""
    assert hook.reviews[-1]["request"]["name"] == "a"
    hook.answer = lambda review: deny(review, message="no")
    assert refusal(local) == 'admission webhook "hook.example.com" denied the request: no'

    assert local.ask("DELETE", f"{HOOKS}/h")[0] == 200
    eventually(lambda: refusal(local) == "")
    local.create(HOOKS, configuration(hook.config))
    eventually(lambda: refusal(local).endswith(": no"))
    assert local.ask("DELETE", f"{HOOKS}/h")[0] == 200


def extension_server(local, hook):
    hook.answer = lambda _: web.json_response(
        {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": "toys.example.com/v1",
            "resources": [],
        }
    )
    annotations = {"apiserver.kubeskew.io/local-address": f"127.0.0.1:{hook.port}"}
    local.create(f"{NAMESPACE}/services", service("toys", annotations))
    slice_ = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "toys-1", "labels": {"kubernetes.io/service-name": "toys"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["192.0.2.1"], "conditions": {"ready": True}}],
        "ports": [{"port": 443, "name": ""}],
    }
    local.create("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice_)
    spec = {"group": "toys.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 1,
            "service": {"namespace": "default", "name": "toys"}, "insecureSkipTLSVerify": True}  # fmt: skip
    body = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1.toys.example.com"},
        "spec": spec,
    }
    local.create(SERVICES, body)
    eventually(lambda: is_available(local, "v1.toys.example.com"))
    assert local.get("/apis/toys.example.com/v1")["groupVersion"] == "toys.example.com/v1"


async def test_a_real_server_reaches_what_it_dials(local: Local, tmp_path: Path):
    """Logs of pods, metrics of nodes, webhooks by a Service and by a URL, and an extension server are there;
    a Service behind which there is nobody refuses connections.
    """
    await asyncio.to_thread(kubelets_and_metrics, local)
    async with hook_server(tmp_path) as hook:
        hook.answer = allow
        await asyncio.to_thread(webhooks, local, hook)
        await asyncio.to_thread(extension_server, local, hook)
