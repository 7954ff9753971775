"""Codes and texts of answers that upstream changed from one release to the next."""

import pytest
from server_in_process import MAPS, Caller, close_server, config_map, open_server

APPS = "/apis/apps/v1/namespaces/default"
PART_OF = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("minor", "code", "text"),
    [(32, 500, "Component not found: nope"), (33, 404, 'componentstatus "nope" not found')],
)
async def test_missing_component(minor, code, text):
    """A component status that there is not is the server's fault up to 1.32 (componentstatus/rest.go)."""
    server = await open_server(minor)
    try:
        missing = await Caller(server).get("/api/v1/componentstatuses/nope")
    finally:
        await close_server(server)
    assert (missing.status, missing.body["message"]) == (code, text)


@pytest.mark.parametrize(
    ("minor", "names"),
    [
        (32, ["deployments/scale.apps", "statefulsets.apps", "replicationcontrollers/scale.autoscaling"]),
        (33, ["deployments.apps", "statefulsets.apps", "replicationcontrollers"]),
    ],
)
async def test_missing_scale(minor, names):
    """A Scale that is read and not there is named by its subresource up to 1.32 (deployment/storage.go)."""
    paths = [
        f"{APPS}/deployments",
        f"{APPS}/statefulsets",
        "/api/v1/namespaces/default/replicationcontrollers",
    ]
    server = await open_server(minor)
    try:
        answers = [await Caller(server).get(f"{path}/x/scale") for path in paths]
    finally:
        await close_server(server)
    assert [answer.body["message"] for answer in answers] == [f'{name} "x" not found' for name in names]


async def test_nobody_impersonated():
    """Impersonation headers without a user are the server's fault up to 1.34 (filters/impersonation.go)."""
    server = await open_server(34)
    try:
        nobody = await Caller(server).get("/version", impersonate_group="g")
    finally:
        await close_server(server)
    why = b"requested [{Group  g    }] without impersonating a user"
    assert (nobody.status, nobody.raw) == (500, b'Internal Server Error: "/version": ' + why + b"\n")


@pytest.mark.parametrize(("minor", "module"), [(29, "k8s.io/apimachinery/"), (30, "")])
async def test_name_of_the_scheme(minor, module):
    """Places in upstream's sources are named without their module once that is none of the vendored ones."""
    server = await open_server(minor)
    try:
        refused = await Caller(server).delete(f"{MAPS}/a", b'{"kind":"Pod"}')
    finally:
        await close_server(server)
    assert refused.body["message"].endswith(
        f'in scheme "{module}pkg/apis/meta/internalversion/scheme/register.go:27"'
    )


@pytest.mark.parametrize("patch", [{"kind": None}, {"data": {}}])
async def test_patch_that_takes_the_kind(api: Caller, patch):
    """The answer to a patch that takes the kind away and changes nothing has it, indented or not."""
    await api.post(MAPS, config_map("a"))
    for agent in ("curl/8", "kubectl/1"):
        answer = await api.patch(f"{MAPS}/a", patch, "merge", user_agent=agent)
        assert (answer.status, answer.body["kind"], answer.body["apiVersion"]) == (200, "ConfigMap", "v1")


@pytest.mark.parametrize(
    ("minor", "priorities"),
    [
        (31, {"v1alpha3": (15900, 9)}),
        (36, {"v1": (16200, 21), "v1beta2": (16200, 15), "v1beta1": (16200, 9)}),
    ],
)
async def test_priorities_of_devices(minor, priorities):
    """The group of devices had a low priority while it had alpha versions only (cmd/kube-apiserver, 1.32)."""
    group = "resource.k8s.io"
    on = {f"{group}/{version}": True for version in priorities}
    gates = {"DynamicResourceAllocation": True}
    server = await open_server(minor, gates=gates, runtime_config=on)
    try:
        listed = (await Caller(server).get("/apis/apiregistration.k8s.io/v1/apiservices")).body["items"]
    finally:
        await close_server(server)
    specs = {item["metadata"]["name"]: item["spec"] for item in listed}
    shown = {version: specs[f"{version}.{group}"] for version in priorities}
    assert priorities == {
        version: (spec["groupPriorityMinimum"], spec["versionPriority"]) for version, spec in shown.items()
    }


async def test_go_types_of_answers(api: Caller):
    """One object requested as a list is refused naming its internal type (events are core's)."""
    pods = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": pods}
    await api.post(f"{APPS}/deployments", {"metadata": {"name": "d"}, "spec": spec})

    scale = await api.get(f"{APPS}/deployments/d/scale", accept=PART_OF)
    events = await api.get(
        "/apis/events.k8s.io/v1/events", accept=PART_OF.replace("MetadataList", "Metadata")
    )

    assert scale.body["message"].endswith("(*autoscaling.Scale)")
    assert events.body["message"].endswith("(*core.EventList)")
