"""An API server of an imported release: fields, rules and kinds that no shipped release has."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from imported import enhanced, import_into, pod
from server_in_process import Caller, close_server, open_server

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


async def test_prose(api: Caller) -> None:
    """OpenAPI documents carry the prose of the tree."""
    document = (await api.get("/openapi/v3/api/v1")).body
    spec = document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]

    assert spec["properties"]["fancy"]["description"] == "Fancy is the name of a colour."
