"""Objects of semantic parameters move between 1.29+kep4381 and its neighbours 1.29 and 1.30."""

import orjson
import pytest
from server_in_process import Caller, close_server, open_server

from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.storage.records import Key

PREVIEW = Version(29, "kep4381")
DRA = "/apis/resource.k8s.io/v1alpha2"
OURS = f"{DRA}/namespaces/default"
OPTIONS = {"gates": {"DynamicResourceAllocation": True}, "runtime_config": {"resource.k8s.io/v1alpha2": True}}
FINALIZER = "semantic.dra.k8s.io/delete-protection"
ORIGIN = {"apiGroup": "example.com", "kind": "Card", "name": "big"}
PARAMETERS = [{"name": "RAM", "counter": {"required": 5}}]
ALLOCATED = [{"counter": {"resourceID": "a", "name": "RAM", "count": 5}}]
SEMANTIC = {"nodeName": "n", "resourceID": "a", "allocations": ALLOCATED, "claimParameters": {"any": 1}}
ATTRIBUTES = [{"name": "RAM", "counter": {"count": 9}}]


class Releases:
    """Servers of one release after the other over one log."""

    def __init__(self, url):
        self._url, self._server = url, None

    async def at(self, release):
        """Returns a caller of a server of that release; the one before is gone."""
        await self.close()
        self._server = await open_server(release, self._url, **OPTIONS)
        return Caller(self._server)

    def stored(self, resource, name, namespace=""):
        """The object as the log has it."""
        return orjson.loads(self._server.services.store.get(Key(resource, namespace, name)).value)

    async def close(self):
        if self._server is not None:
            await close_server(self._server)
        self._server = None


@pytest.fixture
async def releases(tmp_path):
    """The preview has written one object of each kind; the claim is allocated and in use."""
    found = Releases(f"sqlite+aiosqlite:///{tmp_path}/log.db")
    api = await found.at(PREVIEW)
    named = {"metadata": {"name": "x"}, "driverName": "d.example.com"}
    slice_ = {**named, "nodeName": "n", "resources": [{"id": "a", "attributes": ATTRIBUTES}]}
    types = [{"apiGroup": "example.com", "kind": "Card"}]
    origin = {**ORIGIN, "uid": "u", "generation": 3}
    parameters = {**named, "generatedFrom": origin, "shareable": True, "parameters": PARAMETERS}
    claim = {"metadata": {"name": "x", "finalizers": [FINALIZER]}, "spec": {"resourceClassName": "x"}}
    for path, body in (
        (f"{DRA}/noderesourceslices", slice_),
        (f"{DRA}/resourceclasses", {**named, "parameterTypes": types}),
        (f"{OURS}/resourceclaimparameters", parameters),
        (f"{OURS}/resourceclaims", claim),
    ):
        assert (await api.post(path, body)).status == 201
    handle = {"driverName": "d.example.com", "semanticData": SEMANTIC}
    status = {"driverName": "d.example.com", "allocation": {"resourceHandles": [handle]}}
    status["reservedFor"] = [{"resource": "pods", "name": "p", "uid": "1"}]
    assert (await api.patch(f"{OURS}/resourceclaims/x/status", {"status": status})).status == 200
    yield found
    await found.close()


async def test_slices_wait_for_the_preview_to_come_back(releases):
    """Slices of the preview stay as they are under 1.29 and 1.30, which have no path to remove them."""
    slices = f"{DRA}/noderesourceslices"
    for release in (Version(29), Version(30)):
        api = await releases.at(release)
        assert (await api.get(f"{slices}/x")).status == 404
        assert (await api.delete(slices)).status == 404
    back = await (await releases.at(PREVIEW)).get(f"{slices}/x")

    assert back.body["resources"] == [{"id": "a", "attributes": ATTRIBUTES}]


async def test_parameters_of_claims_are_another_shape_in_1_30(releases):
    """1.30 shows what is common, and its next write loses the rest; without one all is there again."""
    path = f"{OURS}/resourceclaimparameters/x"
    assert (await (await releases.at(Version(29))).get(path)).status == 404
    api = await releases.at(Version(30))
    shown = (await api.get(path)).body
    back = (await (await releases.at(PREVIEW)).get(path)).body

    assert {name: shown[name] for name in shown.keys() - {"metadata", "kind", "apiVersion"}} == {
        "generatedFrom": ORIGIN,
        "shareable": True,
    }
    assert (back["parameters"], back["generatedFrom"]["generation"]) == (PARAMETERS, 3)

    api = await releases.at(Version(30))
    assert (await api.patch(path, {"metadata": {"labels": {"a": "b"}}})).status == 200
    api = await releases.at(PREVIEW)
    lost = await api.get(path)
    refused = await api.patch(path, {"metadata": {"labels": {"a": "c"}}})

    assert "parameters" not in lost.body
    assert lost.body["generatedFrom"] == ORIGIN
    assert [cause["field"] for cause in refused.body["details"]["causes"]] == ["generatedFrom.uid"]


async def test_what_1_30_requests_the_preview_does_not_know(releases):
    """Parameters that 1.30 wrote ask for nothing in the preview, and its slices have no path there."""
    api = await releases.at(Version(30))
    selector = {"namedResources": {"selector": "true"}}
    requests = [{"driverName": "d.example.com", "requests": [selector]}]
    named = {"metadata": {"name": "y"}}
    await api.post(f"{OURS}/resourceclaimparameters", {**named, "driverRequests": requests})
    instances = {"namedResources": {"instances": [{"name": "a"}]}}
    await api.post(
        f"{DRA}/resourceslices", {**named, "nodeName": "n", "driverName": "d.example.com", **instances}
    )
    api = await releases.at(PREVIEW)
    shown = (await api.get(f"{OURS}/resourceclaimparameters/y")).body

    assert shown.keys() == {"kind", "apiVersion", "metadata"}
    assert (await api.get(f"{DRA}/resourceslices/y")).status == 404
    stored = releases.stored("resourceclaimparameters.resource.k8s.io", "y", "default")
    assert stored["driverRequests"][0]["requests"][0]["namedResources"] == {"selector": "true"}


@pytest.mark.parametrize("release", [Version(29), Version(30)], ids=str)
async def test_classes_become_classes_of_drivers(releases, release):
    """Without its types of parameters a class is for a driver's controller; a write makes that permanent."""
    path = f"{DRA}/resourceclasses/x"
    api = await releases.at(release)
    shown = (await api.get(path)).body
    kept = releases.stored("resourceclasses.resource.k8s.io", "x")
    assert (await api.patch(path, {"metadata": {"labels": {"a": "b"}}})).status == 200
    back = (await (await releases.at(PREVIEW)).get(path)).body

    assert ("parameterTypes" in shown, "parameterTypes" in kept) == (False, True)
    assert shown["driverName"] == "d.example.com"
    assert "parameterTypes" not in back


@pytest.mark.parametrize("release", [Version(29), Version(30)], ids=str)
async def test_allocated_claims_lose_what_was_allocated(releases, release):
    """Others show an opaque handle without data; when the last user goes, they lose what was allocated."""
    path = f"{OURS}/resourceclaims/x"
    api = await releases.at(release)
    shown = (await api.get(path)).body
    freed = await api.patch(f"{path}/status", {"status": {"reservedFor": None}})
    back = (await (await releases.at(PREVIEW)).get(path)).body

    assert shown["status"]["allocation"] == {"resourceHandles": [{"driverName": "d.example.com"}]}
    assert shown["metadata"]["finalizers"] == [FINALIZER]
    assert freed.status == 200, freed.raw
    assert back["status"]["allocation"] == {"resourceHandles": [{"driverName": "d.example.com"}]}
    gone = await (await releases.at(release)).delete(path)
    assert gone.body["metadata"]["deletionTimestamp"]


async def test_allocated_claims_survive_a_visit_that_writes_nothing(releases):
    """Back in the preview a claim that nobody wrote has its allocation as it was."""
    for release in (Version(30), Version(29), PREVIEW):
        claim = (await (await releases.at(release)).get(f"{OURS}/resourceclaims/x")).body

    assert claim["status"]["allocation"]["resourceHandles"][0]["semanticData"] == SEMANTIC
