"""Programs that use lightkube, kr8s or @kubernetes/client-node work."""

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lightkube
import pytest
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap, Namespace
from lightkube.types import PatchType

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("cluster")]

HERE = Path(__file__).parent
NODE = HERE.parent.parent / ".node"
SESSION, KR8S_SESSION = HERE / "javascript" / "session.mjs", HERE / "kr8s_session.py"
NAMES = itertools.count()
WORKLOAD = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "img", "command": ["echo", "hello"]}]},
        },
    },
}


@pytest.fixture
def light(cluster: Any) -> Iterator[lightkube.Client]:
    config = lightkube.KubeConfig.from_file(str(cluster.kubeconfig))
    client = lightkube.Client(config=config, field_manager="light")
    yield client
    client._client._client.close()


@pytest.fixture
def namespace(light: lightkube.Client) -> Iterator[str]:
    """A namespace of the test's own."""
    name = f"other-{next(NAMES)}"
    light.create(Namespace(metadata=ObjectMeta(name=name)))
    yield name
    light.delete(Namespace, name)


def test_lightkube(light: lightkube.Client, namespace: str):
    """Create, read, apply with a conflict, patch, list, watch, errors, delete."""
    named = ObjectMeta(name="a", namespace=namespace)
    light.create(ConfigMap(metadata=named, data={"k": "1"}))
    assert light.get(ConfigMap, "a", namespace=namespace).data == {"k": "1"}
    patched = light.patch(
        ConfigMap, "a", {"data": {"l": "2"}}, namespace=namespace, patch_type=PatchType.MERGE
    )
    assert patched.data == {"k": "1", "l": "2"}

    applied = ConfigMap(
        apiVersion="v1", kind="ConfigMap", metadata=ObjectMeta(name="b", namespace=namespace), data={"k": "1"}
    )
    light.apply(applied)
    applied.data = {"k": "2"}
    with pytest.raises(lightkube.ApiError) as caught:
        light.apply(applied, field_manager="other")
    assert (caught.value.status.code, caught.value.status.reason) == (409, "Conflict")
    assert light.apply(applied, field_manager="other", force=True).data == {"k": "2"}

    with pytest.raises(lightkube.ApiError) as caught:
        light.get(ConfigMap, "none", namespace=namespace)
    assert caught.value.status.reason == "NotFound"
    own = [one.metadata.name for one in light.list(ConfigMap, namespace=namespace, chunk_size=1)]
    assert {"a", "b"} <= set(own)
    events = light.watch(ConfigMap, namespace=namespace, fields={"metadata.name": "a"}, server_timeout=5)
    assert [(kind, one.metadata.name) for kind, one in itertools.islice(events, 1)] == [("ADDED", "a")]
    light.delete(ConfigMap, "a", namespace=namespace)


def test_lightkube_scales(light: lightkube.Client, namespace: str):
    """A subresource as an object of its own, and a whole object put back."""
    light.create(Deployment.from_dict(WORKLOAD), namespace=namespace)
    scale = light.get(Deployment.Scale, "web", namespace=namespace)
    scale.spec.replicas = 0
    scale.metadata.resourceVersion = None  # the controller writes the deployment's status meanwhile
    light.replace(scale, "web", namespace=namespace)
    assert light.get(Deployment, "web", namespace=namespace).spec.replicas == 0


KR8S_EXPECTED = [
    ["version", "36"],
    ["who", "kubernetes-admin"],
    ["patched", [{"k": "1", "l": "2"}, {"x": "y"}]],
    ["scaled", 2],
    ["discovered", True],
    ["deleted", True],
]


def test_kr8s(cluster: Any, namespace: str):
    """A session of kr8s in a process of its own gets the expected answers."""
    command = [sys.executable, "-W", "ignore", str(KR8S_SESSION), str(cluster.kubeconfig), namespace]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150)
    assert [json.loads(line) for line in done.stdout.splitlines()] == KR8S_EXPECTED, done.stderr


EXPECTED = [
    ["version", "36"],
    ["read", [{"k": "1"}, True]],
    ["twice", [409, "AlreadyExists"]],
    ["missing", [404, "NotFound"]],
    ["merged", {"k": "1", "l": "2"}],
    ["applied", [["js", "Apply"]]],
    ["conflict", [409, "Conflict"]],
    ["watched", ["ADDED", "DELETED"]],
    ["informed", ["a", "b"]],
    ["scaled", 2],
    ["discovered", 2],
    ["paged", [1, True, 1]],
    ["executed", ["Success", "hello\n"]],
]


def test_client_node(cluster: Any, namespace: str):
    """The JavaScript client: typed objects and dates, patches, a watch, an informer, scale, pages, exec."""
    directory = NODE
    if not (directory / "installed").exists():
        error = directory / "error"
        why = error.read_text() if error.exists() else ""
        pytest.skip(f"@kubernetes/client-node is not in {directory.name}: run `make node`. {why}")
    command = ["node", str(SESSION), str(directory), str(cluster.kubeconfig), namespace]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150)
    assert [json.loads(line) for line in done.stdout.splitlines()] == EXPECTED, done.stderr
