"""A program that uses the Python client library `kubernetes` works."""

import base64
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config, dynamic, utils, watch

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("cluster")]

NAMES = itertools.count()
PATIENCE_SECONDS = 20
MANIFESTS = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: "img:1", ports: [{name: http, containerPort: 80}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: http}]}
"""


@pytest.fixture
def api(cluster: Any) -> Iterator[client.ApiClient]:
    """The library's client, as the cluster's kubeconfig makes it."""
    with config.new_client_from_config(str(cluster.kubeconfig)) as made:
        yield made


@pytest.fixture
def core(api: client.ApiClient) -> client.CoreV1Api:
    return client.CoreV1Api(api)


@pytest.fixture
def namespace(core: client.CoreV1Api) -> Iterator[str]:
    """A namespace of the test's own."""
    name = f"py-{next(NAMES)}"
    core.create_namespace({"metadata": {"name": name}})
    yield name
    core.delete_namespace(name)


def message_of(caught: pytest.ExceptionInfo[client.ApiException]) -> str:
    message: str = json.loads(caught.value.body)["message"]
    return message


def test_nodes_and_events(core: client.CoreV1Api, api: client.ApiClient):
    """Typed lists: nodes with their conditions and sizes, events by field selector, the server's version."""
    nodes = {node.metadata.name: node for node in core.list_node().items}
    conditions = {condition.type: condition.status for condition in nodes["gpu-node"].status.conditions}
    ready = core.list_event_for_all_namespaces(
        field_selector="reason=NodeReady,involvedObject.name=gpu-node"
    ).items

    assert (sorted(nodes), conditions["Ready"]) == (["gpu-node", "node-1"], "True")
    assert nodes["gpu-node"].status.capacity["pods"] == "110"
    assert [event.message for event in ready] == ["Node gpu-node status is now: NodeReady"]
    assert client.VersionApi(api).get_code().minor == "36"


def test_a_deployment_rolls_out_under_a_watch(
    api: client.ApiClient, core: client.CoreV1Api, namespace: str, tmp_path: Path
):
    """create_from_yaml, a watch until ready, typed pods in pages, scale, patch, replace, conflict, delete."""
    manifests = tmp_path / "web.yaml"
    manifests.write_text(MANIFESTS)
    apps = client.AppsV1Api(api)
    (deployment,), _ = utils.create_from_yaml(api, str(manifests), namespace=namespace)
    seen = set()
    stream = watch.Watch()
    for event in stream.stream(
        apps.list_namespaced_deployment,
        namespace,
        resource_version=deployment.metadata.resource_version,
        timeout_seconds=PATIENCE_SECONDS,
    ):
        seen.add(event["type"])
        if event["object"].status.ready_replicas == 2:
            stream.stop()
    assert seen == {"MODIFIED"}

    page = core.list_namespaced_pod(namespace, limit=1)
    rest = core.list_namespaced_pod(namespace, limit=1, _continue=page.metadata._continue)
    pods = [*page.items, *rest.items]
    assert [(pod.status.phase, pod.status.qos_class) for pod in pods] == [("Running", "BestEffort")] * 2
    assert len({pod.metadata.name for pod in pods}) == 2

    scale = apps.patch_namespaced_deployment_scale("web", namespace, {"spec": {"replicas": 1}})
    assert (scale.spec.replicas, scale.status.selector) == (1, "app=web")
    apps.patch_namespaced_deployment(
        "web", namespace, [{"op": "add", "path": "/metadata/labels/x", "value": "y"}]
    )
    old = apps.read_namespaced_deployment("web", namespace)
    assert old.metadata.labels == {"app": "web", "x": "y"}
    apps.patch_namespaced_deployment("web", namespace, {"metadata": {"labels": {"x": "z"}}})
    with pytest.raises(client.ApiException) as conflict:
        apps.replace_namespaced_deployment("web", namespace, old)
    assert conflict.value.status == 409

    apps.delete_namespaced_deployment("web", namespace, propagation_policy="Foreground")
    gone = watch.Watch()
    for event in gone.stream(apps.list_namespaced_deployment, namespace, timeout_seconds=PATIENCE_SECONDS):
        if event["type"] == "DELETED":
            gone.stop()
    assert core.list_namespaced_pod(namespace, label_selector="app=web").items == []


def test_config_maps_secrets_and_errors(core: client.CoreV1Api, namespace: str):
    """Objects made of the library's classes come back as such; errors carry status and message."""
    metadata = client.V1ObjectMeta(name="x", labels={"a": "b"})
    core.create_namespaced_config_map(
        namespace, client.V1ConfigMap(metadata=metadata, data={"a": "b"}, binary_data={"c": "AAE="})
    )
    core.create_namespaced_secret(namespace, client.V1Secret(metadata=metadata, string_data={"a": "b"}))
    secret = core.read_namespaced_secret("x", namespace)
    assert (secret.type, base64.b64decode(secret.data["a"])) == ("Opaque", b"b")
    with pytest.raises(client.ApiException) as missing:
        core.read_namespaced_pod("nope", namespace)
    assert (missing.value.status, message_of(missing)) == (404, 'pods "nope" not found')
    with pytest.raises(client.ApiException) as wrong:
        core.create_namespaced_pod(namespace, {"metadata": {"name": "x"}, "spec": {"containers": []}})
    assert (wrong.value.status, message_of(wrong)) == (
        422,
        'Pod "x" is invalid: spec.containers: Required value',
    )
    core.delete_collection_namespaced_config_map(namespace, label_selector="a=b")
    left = core.list_namespaced_config_map(namespace).items
    assert "x" not in {each.metadata.name for each in left}


def test_devices(api: client.ApiClient, namespace: str):
    """The classes of resource.k8s.io/v1: slices of the driver, a claim made and read."""
    resources = client.ResourceV1Api(api)
    [published] = resources.list_resource_slice(field_selector="spec.nodeName=gpu-node").items
    assert (published.spec.driver, len(published.spec.devices)) == ("gpu.example.com", 8)
    request = client.V1DeviceRequest(name="gpu", exactly=client.V1ExactDeviceRequest(device_class_name="gpu"))
    claim = client.ResourceV1ResourceClaim(
        metadata=client.V1ObjectMeta(name="claim"),
        spec=client.V1ResourceClaimSpec(devices=client.V1DeviceClaim(requests=[request])),
    )
    resources.create_namespaced_resource_claim(namespace, claim)
    found = resources.read_namespaced_resource_claim("claim", namespace)
    exactly = found.spec.devices.requests[0].exactly
    assert (exactly.allocation_mode, exactly.count) == ("ExactCount", 1)


def test_the_dynamic_client(api: client.ApiClient, namespace: str, tmp_path: Path):
    """Kinds found by discovery: apply on the server, watch, and the version that is preferred."""
    found = dynamic.DynamicClient(api, cache_file=str(tmp_path / "discovery"))
    maps = found.resources.get(api_version="v1", kind="ConfigMap")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "1"}}
    applied = maps.server_side_apply(body, namespace=namespace, field_manager="me")
    assert applied.data.to_dict() == {"a": "1"}
    assert applied.metadata.managedFields[0].manager == "me"
    for event in maps.watch(namespace=namespace, field_selector="metadata.name=m", timeout=1):
        assert (event["type"], event["object"].data.a) == ("ADDED", "1")
        break
    assert found.resources.get(kind="ResourceClaim").group_version == "resource.k8s.io/v1"


def test_reviews(api: client.ApiClient):
    """Reviews of oneself show a client its user's name and rights."""
    me = client.AuthenticationV1Api(api).create_self_subject_review({})
    question = {"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}}
    mine = client.AuthorizationV1Api(api).create_self_subject_access_review(question)

    assert (me.status.user_info.username, mine.status.allowed) == ("kubernetes-admin", True)
