"""An API server of an imported release: fields, rules and kinds that no shipped release has."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from imported import enhanced, import_into, pod
from server_in_process import Caller, close_server, open_server
from source_trees import Tree, tree

from kubeskew.apimachinery.imported_releases import ENVIRONMENT
from kubeskew.apimachinery.versions import Version

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module", name="releases")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    releases = tmp_path_factory.mktemp("releases")
    import_into(releases, enhanced(), tmp_path_factory.mktemp("tree"), "1.37+served")
    return releases


@pytest.fixture(name="api")
async def server(
    request: pytest.FixtureRequest, releases: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Caller]:
    monkeypatch.setenv(ENVIRONMENT, str(releases))
    opened = await open_server(Version.parse("1.37+served"), gates=getattr(request, "param", {}))
    yield Caller(opened)
    await close_server(opened)


async def test_a_field_behind_a_gate_that_is_off(api: Caller) -> None:
    """Without its gate, the new field is dropped."""
    answer = await api.post(PODS, pod("a", fancy="blue"))

    assert answer.status == 201, answer.body
    assert "fancy" not in answer.body["spec"]


@pytest.mark.parametrize("api", [{"Fancy": True}], indirect=True)
async def test_a_field_behind_a_gate_that_is_on(api: Caller) -> None:
    """With its gate, the new field is kept, and its declared rule is applied with upstream's text."""
    kept, refused = (
        await api.post(PODS, pod("a", fancy="blue")),
        await api.post(PODS, pod("b", fancy="magenta")),
    )

    assert (kept.status, kept.body["spec"]["fancy"]) == (201, "blue")
    assert refused.status == 422
    assert [(cause["field"], cause["message"]) for cause in refused.body["details"]["causes"]] == [
        ("spec.fancy", "Too long: may not be more than 5 characters")
    ]


async def test_a_new_kind(api: Caller) -> None:
    """A kind that no release has is served, stored and printed."""
    path = "/apis/scheduling.k8s.io/v1/widgets"
    widget = {"apiVersion": "scheduling.k8s.io/v1", "kind": "Widget", "metadata": {"name": "w"}, "value": 7}
    made = await api.post(path, widget)
    table = await api.get(path, accept="application/json;as=Table;g=meta.k8s.io;v=v1")

    assert (made.status, made.body["value"]) == (201, 7)
    assert (await api.get(f"{path}/w")).body == made.body
    assert [row["cells"][0] for row in table.body["rows"]] == ["w"]


def _scaled() -> Tree:
    made = tree()
    made.add_kind("ResourceClaim", "Toy", "toys", group="resource.k8s.io", version="v1")
    spec = {"fields": {"replicas": {"type": "*int32", "omitempty": True, "markers": ["optional"]}}}
    made.types["resource/v1"]["ToySpec"] = spec
    made.types["resource/v1"]["Toy"]["fields"]["spec"] = {"type": "ToySpec"}
    prefix = "io.k8s.api.resource.v1."
    made.swagger["definitions"][f"{prefix}ToySpec"] = {
        "properties": {"replicas": {"type": "integer", "format": "int32"}}
    }
    made.swagger["definitions"][f"{prefix}Toy"]["properties"]["spec"] = {
        "$ref": f"#/definitions/{prefix}ToySpec"
    }
    group = next(item for item in made.groups["items"] if item["metadata"]["name"] == "resource.k8s.io")
    listed = next(each["resources"] for each in group["versions"] if each["version"] == "v1")
    toys = next(each for each in listed if each["resource"] == "toys")
    scale = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    verbs = ["get", "patch", "update"]
    toys["subresources"] += [
        {"subresource": "scale", "responseKind": scale, "verbs": verbs},
        {"subresource": "wind", "responseKind": scale, "verbs": ["create"]},
    ]
    return made


async def test_scaling_a_new_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scale subresource of a new kind reads and writes its replicas; another one is reported."""
    release = import_into(tmp_path / "releases", _scaled(), tmp_path / "tree", "1.37+scaled")
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "releases"))
    opened = await open_server(Version.parse("1.37+scaled"), gates={})
    api, path = Caller(opened), "/apis/resource.k8s.io/v1/namespaces/default/toys"
    toy = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "Toy",
        "metadata": {"name": "t"},
        "spec": {"replicas": 2},
    }
    await api.post(path, toy)

    scale = (await api.get(f"{path}/t/scale")).body
    scaled = await api.put(f"{path}/t/scale", {**scale, "spec": {"replicas": 5}})
    read = await api.get(f"{path}/t")
    await close_server(opened)

    assert (scale["spec"], scaled.status, read.body["spec"]) == ({"replicas": 2}, 200, {"replicas": 5})
    assert release.reported["subresources without code of their own here"] == ["toys.resource.k8s.io/wind"]


async def test_prose(api: Caller) -> None:
    """OpenAPI documents carry the prose of the tree."""
    document = (await api.get("/openapi/v3/api/v1")).body
    spec = document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]

    assert spec["properties"]["fancy"]["description"] == "Fancy is the name of a colour."


async def test_a_default_role(api: Caller) -> None:
    """A fresh server makes the roles of the tree."""
    role = (await api.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/system:painter")).body

    assert role["rules"] == [{"apiGroups": ["scheduling.k8s.io"], "resources": ["widgets"], "verbs": ["get"]}]


async def test_a_newer_storage_version(api: Caller) -> None:
    """Objects are stored in the version that the tree chooses, not in that of the base release."""
    rule = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "r"},
        "spec": {"deviceSelector": {"driver": "d"}, "taint": {"key": "k", "effect": "NoSchedule"}},
    }
    made = await api.post("/apis/resource.k8s.io/v1/devicetaintrules", rule)
    events = await api.server.services.log.after(0, 10_000)
    rules = [event for event in events if event.key.resource == "devicetaintrules.resource.k8s.io"]

    assert made.status == 201, made.body
    assert [json.loads(event.value)["apiVersion"] for event in rules] == ["resource.k8s.io/v1"]
