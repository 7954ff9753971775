"""Two API servers of one control plane, one of them upgraded: what is written at one, the other does."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from asking import Local, config_map, eventually
from calling_back import webhook
from every_kind import binding, definition, mutating_webhook, policy, trouble

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.xdist_group("two-servers")]

OLD, NEW = "apiserver-1", "apiserver-2"
MAPS = "/api/v1/namespaces/default/configmaps"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
SIZES = "/apis/example.com/{}/namespaces/default/sizes"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    """Servers at 1.35 and 1.36."""
    made = Local(tmp_path / "state")
    try:
        made.run("up", "--ha", "2", "--version", "1.35", "--nodes", "1")
        made.run("upgrade", "--to", "1.36", "--component", NEW)
        assert made.versions()[NEW] == "1.36"
        yield made
    finally:
        made.run("down", "--purge")


def test_both_serve_the_same(local: Local) -> None:
    """Definitions, conversion, webhooks, policies, roles, quotas and watches hold across servers."""
    with webhook(local.state) as client:
        definitions(local, client)
        admission(local, client)
        roles(local)
        quota(local)
        watches(local)
        revision = int(local.get("/api/v1/namespaces", NEW)["metadata"]["resourceVersion"])
        quiet(local, revision)
        assert trouble(local) == []


def definitions(local: Local, client: dict[str, Any]) -> None:
    local.create(CRDS, definition(client), server=NEW)
    for server in (OLD, NEW):
        eventually(partial(is_served, local, server))
    size = {"apiVersion": "example.com/v1", "kind": "Size", "metadata": {"name": "s"}, "spec": {"size": 2}}
    local.create(SIZES.format("v1"), size, server=OLD)
    assert local.get(SIZES.format("v2") + "/s", NEW)["spec"] == {"replicas": 2}
    assert "com.example.v1.Size" in json.dumps(list(local.get("/openapi/v2", OLD)["definitions"]))


def is_served(local: Local, server: str) -> bool:
    return "example.com" in [group["name"] for group in local.get("/apis", server)["groups"]]


def is_refused(local: Local, server: str) -> bool:
    """Returns whether the server's policy refuses a config map."""
    forbidden = {**config_map("no"), "data": {"forbidden": "x"}}
    return local.ask("POST", MAPS, forbidden, server=server)[0] == 422


def admission(local: Local, client: dict[str, Any]) -> None:
    """Each server enforces what the other one was given."""
    local.create(f"{ADMISSION}/mutatingwebhookconfigurations", mutating_webhook(client), server=OLD)
    kind, api = "ValidatingAdmissionPolicy", "admissionregistration.k8s.io/v1"
    local.create(f"{ADMISSION}/validatingadmissionpolicies", policy(api, kind), server=OLD)
    local.create(f"{ADMISSION}/validatingadmissionpolicybindings", binding(api, kind), server=NEW)
    for server in (OLD, NEW):
        eventually(partial(is_refused, local, server))
        made = local.create(MAPS, config_map(f"by-{server}"), server=server)
        assert made["metadata"]["labels"] == {"mutated": "yes"}
    for path in ("validatingadmissionpolicybindings", "mutatingwebhookconfigurations"):
        assert local.ask("DELETE", f"{ADMISSION}/{path}/maps", server=NEW)[0] == 200


def roles(local: Local) -> None:
    review: dict[str, Any] = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    review["spec"] = {"user": "joe", "resourceAttributes": {"verb": "list", "resource": "pods"}}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    bound = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"}
    bound |= {"metadata": {"name": "joe"}, "subjects": [{"kind": "User", "name": "joe"}]}
    bound |= {"roleRef": {"kind": "ClusterRole", "name": "view", "apiGroup": "rbac.authorization.k8s.io"}}
    assert not local.create(path, review, server=OLD)["status"]["allowed"]
    local.create(f"{RBAC}/clusterrolebindings", bound, server=NEW)
    eventually(lambda: bool(local.create(path, review, server=OLD)["status"]["allowed"]))


def quota(local: Local) -> None:
    """Creates that race on two servers never use more than there is."""
    limit = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}}
    local.create(QUOTAS, {**limit, "spec": {"hard": {"count/secrets": "10"}}}, server=OLD)
    eventually(lambda: "count/secrets" in local.get(f"{QUOTAS}/few", NEW).get("status", {}).get("used", {}))

    def create(number: int) -> int:
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"s-{number}"}}
        path = "/api/v1/namespaces/default/secrets"
        return local.ask("POST", path, secret, server=(OLD, NEW)[number % 2])[0]

    with ThreadPoolExecutor(8) as pool:
        found = sorted(pool.map(create, range(40)))
    assert set(found) <= {201, 403, 409}
    assert found.count(201) == 10 == len(local.get("/api/v1/namespaces/default/secrets", NEW)["items"])


def watches(local: Local) -> None:
    """A watch on one server sees what the other writes."""
    connection = local.connect(OLD)
    since = local.get(MAPS, OLD)["metadata"]["resourceVersion"]
    connection.request("GET", f"{MAPS}?watch=true&resourceVersion={since}", headers=dict(local.headers()))
    stream = connection.getresponse()
    threading.Timer(0.1, lambda: local.create(MAPS, config_map("seen"), server=NEW)).start()
    assert json.loads(stream.readline())["object"]["metadata"]["name"] == "seen"
    connection.close()


def quiet(local: Local, since: int) -> None:
    """Nobody overwrites what the other server wrote: but leases, nothing changes any more.

    A node's Event comes within five seconds, the period in which the node lifecycle controller looks.
    """
    seen: list[str] = []

    def is_registered() -> bool:
        events = local.get("/api/v1/namespaces/default/events", NEW)["items"]
        return "RegisteredNode" in [event["reason"] for event in events]

    def writes() -> list[str]:
        events = json.loads(local.run("events", "--since", str(since), "-o", "json").stdout)
        return [event["object"] for event in events if "lease" not in event["object"]]

    def settled() -> bool:
        nonlocal seen
        before, seen = seen, writes()
        return before == seen

    eventually(is_registered)
    eventually(settled)
    threading.Event().wait(2)
    assert writes() == seen
