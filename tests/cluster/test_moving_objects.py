"""Objects of many kinds and versions through upgrades and downgrades of a whole cluster, minor by minor."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from asking import Local, config_map, eventually
from calling_back import webhook
from every_kind import WORKLOADS, binding, definition, mutating_webhook, policy, trouble

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.xdist_group("moving")]

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
ADMISSION = "/apis/admissionregistration.k8s.io"
SIZES = "/apis/example.com/{}/namespaces/default/sizes"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
LEVELS = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"
SERVICES = "/api/v1/namespaces/default/services"
# Collectors of garbage and quotas watch what discovery names, until they look at it again. Going down, the
# API server is the last, and takes kinds away under them.
GONE = re.compile(r"Failed to watch .*: (404 page not found|the server could not find .*)$")
WAY = ("1.35", "1.36", "1.37", "1.36", "1.35", "1.34")
CLUSTER_FILE = """
version: "1.34"
featureGates: {MutatingAdmissionPolicy: true}
runtimeConfig:
  admissionregistration.k8s.io/v1beta1: true
  storage.k8s.io/v1beta1: true
  certificates.k8s.io/v1beta1: true
nodes: [{name: node-1}]
"""


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    """A cluster at 1.34 with mutating policies, which are beta there and off by default."""
    made = Local(tmp_path / "state")
    (tmp_path / "cluster.yaml").write_text(CLUSTER_FILE)
    try:
        made.run("up", "--config", str(tmp_path / "cluster.yaml"))
        yield made
    finally:
        made.run("down", "--purge")


def test_objects_survive_the_way_up_and_back(local: Local) -> None:
    """At every stop everything still acts, pods run on, tokens count, roles are only ever added."""
    with webhook(local.state) as client:
        token = fill(local, client)
        pods, roles, at = running(local), names(local, ROLES), "1.34"
        check(local, "1.34", 0, token)
        for number, version in enumerate(WAY, 1):
            local.run("upgrade" if version > at else "downgrade", "--to", version)
            at = version
            assert running(local) == pods
            assert roles <= (roles := names(local, ROLES))
            check(local, version, number, token)
        assert [line for line in trouble(local) if not GONE.search(line)] == []


def names(local: Local, path: str) -> set[str]:
    return {obj["metadata"]["name"] for obj in local.get(path)["items"]}


def running(local: Local) -> dict[str, Any]:
    """Start and restarts of the containers of long running pods."""
    found = {}
    for pod in local.get(PODS)["items"]:
        if pod["metadata"]["labels"].get("app"):
            (status,) = pod["status"].get("containerStatuses") or [{}]
            found[pod["metadata"]["name"]] = (status.get("state"), status.get("restartCount"))
    return found


def fill(local: Local, client: dict[str, Any]) -> str:
    """Create everything; gives a token of the default service account."""
    for obj in yaml.safe_load_all(WORKLOADS):
        create(local, obj)
    local.create(CRDS, definition(client))
    eventually(lambda: "example.com" in [group["name"] for group in local.get("/apis")["groups"]])
    old = {"apiVersion": "example.com/v1", "kind": "Size", "metadata": {"name": "s"}, "spec": {"size": 2}}
    local.create(SIZES.format("v1"), old)
    local.create(f"{ADMISSION}/v1/mutatingwebhookconfigurations", mutating_webhook(client))
    for kind, version in (("Validating", "v1"), ("Mutating", "v1beta1")):
        api, path = (
            f"admissionregistration.k8s.io/{version}",
            f"{ADMISSION}/{version}/{kind.lower()}admission",
        )
        local.create(f"{path}policies", policy(api, f"{kind}AdmissionPolicy"))
        local.create(f"{path}policybindings", binding(api, f"{kind}AdmissionPolicy"))
    shares = {"nominalConcurrencyShares": 0, "limitResponse": {"type": "Reject"}}
    level = {"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration"}
    local.create(LEVELS, {**level, "metadata": {"name": "l"}, "spec": {"type": "Limited", "limited": shares}})
    eventually(
        lambda: len(running(local)) == 5 and all("running" in (s or {}) for s, _ in running(local).values())
    )
    token = local.create("/api/v1/namespaces/default/serviceaccounts/default/token", {"spec": {}})
    return str(token["status"]["token"])


def create(local: Local, obj: dict[str, Any]) -> None:
    """By the resource's path."""
    group, _, version = obj["apiVersion"].rpartition("/")
    prefix = f"/apis/{group}/{version}" if group else f"/api/{version}"
    namespace = obj["metadata"].get("namespace")
    within = f"/namespaces/{namespace}" if namespace else ""
    kind = obj["kind"].lower()
    plural = f"{kind}es" if kind.endswith("s") else f"{kind}s"
    local.create(f"{prefix}{within}/{plural}", obj)


def check(local: Local, version: str, number: int, token: str) -> None:
    """Everything acts in this release."""
    name = f"m-{number}"
    made = local.create(MAPS, config_map(name))["metadata"]
    assert (made["labels"], made.get("annotations")) == ({"mutated": "yes"}, {"policy": "was here"}), version
    status, refused = local.ask("POST", MAPS, {**config_map("no"), "data": {"forbidden": "x"}})
    assert status == 422, (version, refused)
    assert local.get(SIZES.format("v2") + "/s")["spec"] == {"replicas": 2}
    size = {"apiVersion": "example.com/v2", "kind": "Size", "metadata": {"name": name}, "spec": {}}
    local.create(SIZES.format("v2"), size)
    assert local.get(LEVELS + "/l")["spec"]["limited"]["nominalConcurrencyShares"] == 0
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    status, reviewed = local.ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)
    assert (status, reviewed["status"].get("authenticated")) == (201, True), reviewed
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}}
    local.create(SERVICES, {**service, "spec": {"ports": [{"port": 80}]}})
    quota = "/api/v1/namespaces/limited/resourcequotas/few"
    eventually(lambda: local.get(quota)["status"].get("used", {}).get("count/configmaps") == "1")
    deployment = "/apis/apps/v1/namespaces/default/deployments/web"
    assert local.get(deployment)["status"].get("readyReplicas") == 2, version
    for group in local.get("/apis")["groups"]:
        for listed in group["versions"]:
            check_lists(local, listed["groupVersion"], version)


def check_lists(local: Local, group_version: str, version: str) -> None:
    """Everything can be listed."""
    for resource in local.get(f"/apis/{group_version}")["resources"]:
        if "list" in resource["verbs"]:
            status, answer = local.ask("GET", f"/apis/{group_version}/{resource['name']}")
            assert status == 200, (version, group_version, resource["name"], answer)
