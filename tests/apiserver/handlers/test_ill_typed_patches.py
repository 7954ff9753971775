"""Patches that make objects of another type, kind or version: the client's fault, never a panic."""

import itertools
from typing import Any

import pytest
from custom_definitions import GROUP, define, path, version
from server_in_process import MAPS, Caller, config_map

WIDGETS = path("widgets")
PODS = "/api/v1/namespaces/default/pods"
NAMELESS = "the name of the object ({} based on URL) was undeterminable: name must be provided"
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
HEADS: list[dict[str, Any]] = [
    {}, {"apiVersion": ""}, {"apiVersion": None}, {"apiVersion": "v1/"}, {"apiVersion": "/"}, {"kind": ""},
    {"kind": "Other"}, {"apiVersion": "nope/v1"}, {"apiVersion": f"{GROUP}/v9"}, {"apiVersion": 5},
]  # fmt: skip
ILL_TYPED = ["x", 5, 1.5, True, [1], ["x"], [None], [{}]]


@pytest.fixture
async def objects(api: Caller) -> Caller:
    """The API with a config map, a pod and a custom resource."""
    assert (await api.post(MAPS, config_map("a"))).status == 201
    assert (await api.post(PODS, POD)).status == 201
    await define(api, "widgets", version(subresources={"status": {}}))
    widget = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "w"}}
    assert (await api.post(WIDGETS, widget)).status == 201
    return api


@pytest.mark.parametrize("kind", ["merge", "json", "strategic"])
async def test_metadata_of_another_type(objects, kind, caplog):
    """Metadata that is no object is 400 or 422 regardless of what the patch makes of apiVersion and kind."""
    targets = [f"{MAPS}/a", f"{PODS}/p", f"{PODS}/p/status"]
    targets += [f"{WIDGETS}/w", f"{WIDGETS}/w/status"] if kind != "strategic" else []
    answers = []
    for target, head, metadata in itertools.product(targets, HEADS, ILL_TYPED):
        patch: Any = {**head, "metadata": metadata}
        if kind == "json":
            patch = [{"op": "add", "path": f"/{name}", "value": value} for name, value in patch.items()]
        answers.append((await objects.patch(target, patch, kind), target, patch))

    assert [(target, patch) for answer, target, patch in answers if answer.status not in {400, 422}] == []
    assert [record for record in caplog.records if record.exc_info] == []


@pytest.mark.parametrize(
    ("patch", "status", "message"),
    [
        ({"apiVersion": "", "metadata": "x"}, 400, NAMELESS.format("a")),
        ({"apiVersion": None, "metadata": []}, 400, NAMELESS.format("a")),
        ({"apiVersion": "", "metadata": {"name": "b"}}, 400, NAMELESS.format("a")),
        ({"apiVersion": "/"}, 400, NAMELESS.format("a")),
        ({"apiVersion": "apps/"}, 422, "Object 'apiVersion' is missing in '"),
        (
            {"metadata": "x"},
            422,
            "json: cannot unmarshal string into Go struct field ConfigMap.metadata of type",
        ),
    ],
)
async def test_an_object_without_a_version(objects, patch, status, message):
    """An object of no version is read as the internal one, whose name nobody finds; the URL's is reported."""
    answer = await objects.patch(f"{MAPS}/a", patch)

    assert answer.status == status
    assert message in answer.body["message"]


@pytest.mark.parametrize(
    ("patch", "status", "message"),
    [
        ({"apiVersion": "", "metadata": "x"}, 422, "metadata"),
        ({"kind": "Other", "metadata": "x"}, 422, "metadata"),
        ({"kind": "Other", "metadata": {"name": "b"}}, 400, "the name of the object (b) does not match"),
        (
            {"kind": "Other"},
            422,
            f'Other.{GROUP} "w" is invalid: kind: Invalid value: "Other": must be Widget',
        ),
        ({"kind": ""}, 422, "Object 'Kind' is missing in '"),
    ],
)
async def test_a_custom_resource_of_another_kind(objects, patch, status, message):
    """A patched custom resource has its metadata read first, then its name; its kind is checked last."""
    answer = await objects.patch(f"{WIDGETS}/w", patch)

    assert answer.status == status
    assert message in answer.body["message"]


async def test_versions_that_end_with_their_slash(objects):
    """A created object's group alone stands for the path's version; another's is no version."""
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    own = await objects.post(deployments, {"apiVersion": "apps/", "kind": "Deployment"})
    other = await objects.post(MAPS, {"apiVersion": "v1/", "kind": "ConfigMap"})

    assert own.status == 422
    assert other.status == 400
    assert other.body["message"].startswith(
        "ConfigMap in version \"\" cannot be handled as a ConfigMap: Object 'apiVersion' is missing in"
    )


@pytest.mark.parametrize("name", [5, ["x"], {"a": None}])
async def test_configurations_are_named_as_go_does(objects, name):
    """In what is said of a configuration a name that is no text is none."""
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": name}}
    answer = await objects.patch(f"{MAPS}/a?fieldManager=m", config, "apply")

    assert answer.body["message"].startswith(
        "failed to create typed patch object (/a; /v1, Kind=ConfigMap): "
    )
