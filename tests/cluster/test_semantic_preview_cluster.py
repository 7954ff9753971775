"""A cluster of the preview of semantic parameters, seen through kubectl, moves to 1.30, 1.29 and back."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from asking import Local, eventually

pytestmark = [pytest.mark.kubectl, pytest.mark.cluster, pytest.mark.xdist_group("preview")]

RELEASE = "1.29+kep4381"
EXAMPLES = Path(__file__).parents[2] / "conformance" / "examples" / "kep-4381"
DRA = "/apis/resource.k8s.io/v1alpha2"
SLICE = f"{DRA}/noderesourceslices/worker-1-cards.dra.example.com"
CLASS = f"{DRA}/resourceclasses/cards"
# what `describe` says of the objects, and `explain` of a field: its type and description
KINDS = {
    "noderesourceslices": (
        ("Driver Name: cards.dra.example.com", "Version: v3.2.1", "Count: 1000000", "Id: CardA"),
        "resources.attributes.counter",
        "count <integer> -required- Amount that the resource has in all.",
    ),
    "resourceclaimparameters": (
        ("Generation: 10", 'Selector: versions["API"] >= "v1.0.0"', "Required: 10000000"),
        "parameters.metadata",
        "selector <string> -required- CEL expression",
    ),
    "resourceclasses": (
        ("Driver Name: cards.dra.example.com", "API Group: dra.example.com Kind: CardParameters"),
        "parameterTypes",
        "apiGroup <string> Group of the kind",
    ),
    "resourceclaims": (
        ("Allocation Mode: WaitForFirstConsumer", "Resource Class Name: cards"),
        "status.allocation.resourceHandles.semanticData",
        "allocations <[]SemanticAllocationResult> Parts that were taken",
    ),
}
# the rows of `get`, whose last column is an age; `-o wide` shows the same columns
ROWS = {
    "noderesourceslices": ["worker-1-cards.dra.example.com worker-1 cards.dra.example.com",
                           "worker-1-pool.dra.example.com worker-1 pool.dra.example.com"],
    "resourceclaimparameters": ["some-arbitrary-name CardParameters.dra.example.com my-parameters"],
    "resourceclasses": ["cards cards.dra.example.com"],
    "resourceclaims": ["card cards WaitForFirstConsumer pending"],
}  # fmt: skip


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    """A cluster at the preview release."""
    found = Local(tmp_path / "state")
    try:
        found.run("up", "--version", RELEASE, "--nodes", "1")
        yield found
    finally:
        found.run("down", "--purge")


def groups(local: Local) -> set[str]:
    return {group["name"] for group in local.get("/apis")["groups"]}


def served(local: Local, plural: str) -> bool:
    if "resource.k8s.io" not in groups(local):
        return False
    return plural in {resource["name"] for resource in local.get(DRA)["resources"]}


def owned_slice_goes_with_its_node(local: Local) -> None:
    """Deletes a node that owns a slice and returns when the slice is gone."""
    node = local.create("/api/v1/nodes", {"metadata": {"name": "leaving"}})
    uid = node["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": "leaving", "uid": uid, "controller": True}
    metadata = {"name": "leaving-a", "ownerReferences": [owner]}
    slice_ = {"metadata": metadata, "nodeName": "leaving", "driverName": "a.example.com"}
    local.create(f"{DRA}/noderesourceslices", slice_)
    local.ask("DELETE", "/api/v1/nodes/leaving")
    eventually(lambda: local.ask("GET", f"{DRA}/noderesourceslices/leaving-a")[0] == 404)


@pytest.mark.slow
def test_the_drafts_manifests_through_kubectl(local: Local, find_kubectl: Callable[[str], Path]) -> None:
    """Old and new kubectl apply, show, describe and explain each kind; other releases lose what is theirs."""

    def kubectl(version: str, *arguments: str) -> str:
        command = [str(find_kubectl(version)), "--kubeconfig", str(local.state / "kubeconfig"), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    kubectl("1.36", "create", "namespace", "user-namespace")
    kubectl("1.36", "apply", "-f", str(EXAMPLES / "card-parameters-definition.yaml"))
    eventually(lambda: "dra.example.com" in groups(local))
    assert kubectl("1.36", "apply", "-f", str(EXAMPLES)).count("created") == 6
    before = local.get(SLICE)
    assert kubectl("1.32", "apply", "-f", str(EXAMPLES)).count("unchanged") == 5  # slices got their ids
    assert local.get(SLICE) == before
    for release in ("1.32", "1.36"):
        for kind, (lines, path, field) in KINDS.items():
            for wide in ([], ["-o", "wide"]):
                shown = kubectl(release, "get", kind, "-n", "user-namespace", "--no-headers", *wide)
                assert [" ".join(row.split()[:-1]) for row in shown.splitlines()] == ROWS[kind]
            described = " ".join(kubectl(release, "describe", kind, "-n", "user-namespace").split())
            assert [line for line in lines if line not in described] == []
            assert field in " ".join(kubectl(release, "explain", f"{kind}.{path}").split())
        selected = kubectl(release, "get", "noderesourceslices", "-o", "name", "--field-selector",
                           "nodeName=worker-1,driverName=pool.dra.example.com")  # fmt: skip
        assert selected.strip() == "noderesourceslice.resource.k8s.io/worker-1-pool.dra.example.com"
    cards = local.get(SLICE)["resources"]
    owned_slice_goes_with_its_node(local)

    local.run("upgrade", "--to", "1.30")

    assert set(local.versions().values()) == {"1.30"}
    assert not served(local, "noderesourceslices")

    local.run("downgrade", "--to", RELEASE)

    assert set(local.versions().values()) == {RELEASE}
    assert local.get(SLICE)["resources"] == cards
    assert len(local.get(CLASS)["parameterTypes"]) == 2

    local.run("downgrade", "--to", "1.29")

    assert set(local.versions().values()) == {"1.29"}
    assert not served(local, "noderesourceslices")

    local.run("upgrade", "--to", RELEASE)

    assert local.get(SLICE)["resources"] == cards
    local.run("gates", "DynamicResourceAllocation=false")
    assert not served(local, "resourceclaims")
