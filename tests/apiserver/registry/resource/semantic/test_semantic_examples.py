"""The manifests of KEP-4381's draft are taken by a server of the preview release."""

from pathlib import Path

import pytest
import yaml
from server_in_process import Caller, close_server, open_server
from until import until

from kubeskew.apimachinery.versions import Version

EXAMPLES = Path(__file__).parents[5] / "conformance" / "examples" / "kep-4381"
DRA = "/apis/resource.k8s.io/v1alpha2"
IN_NAMESPACE = "namespaces/user-namespace"
CARDS = f"/apis/dra.example.com/v1alpha1/{IN_NAMESPACE}/cardparameters"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PATHS = {
    "NodeResourceSlice": f"{DRA}/noderesourceslices",
    "ResourceClass": f"{DRA}/resourceclasses",
    "ResourceClaim": f"{DRA}/{IN_NAMESPACE}/resourceclaims",
    "ResourceClaimParameters": f"{DRA}/{IN_NAMESPACE}/resourceclaimparameters",
    "CardParameters": CARDS,
}


def example(name):
    return yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text("utf-8"))


@pytest.fixture
async def api():
    """Calls a server of the preview release with the namespace of the examples."""
    server = await open_server(Version(29, "kep4381"))
    caller = Caller(server)
    await caller.post("/api/v1/namespaces", {"metadata": {"name": "user-namespace"}})
    yield caller
    await close_server(server)


async def define_cards(api):
    """Creates the definition of CardParameters and waits until they are served."""
    assert (await api.post(DEFINITIONS, example("card-parameters-definition"))).status == 201

    async def served():
        return (await api.get(CARDS)).status == 200

    await until(served, 30, every=0.02)


@pytest.mark.parametrize(
    "name", ["card-slice", "pool-slice", "resource-class", "resource-claim", "resource-claim-parameters"]
)
async def test_manifests_are_taken_as_they_stand(api, name):
    """Each is created with strict field validation, and its fields are kept."""
    manifest = example(name)
    made = await api.post(f"{PATHS[manifest['kind']]}?fieldValidation=Strict", manifest)

    assert made.status == 201, made.raw
    assert {
        field: made.body[field] for field in manifest if field not in ("metadata", "resources", "spec")
    } == {field: manifest[field] for field in manifest if field not in ("metadata", "resources", "spec")}
    for shown, given in zip(made.body.get("resources", []), manifest.get("resources", []), strict=True):
        assert shown == {"id": given["name"], **given}


async def test_parameters_of_the_vendor_are_taken(api):
    """The user's object is validated by the vendor's definition and starts at generation 1."""
    await define_cards(api)
    made = await api.post(f"{CARDS}?fieldValidation=Strict", example("card-parameters"))

    assert made.status == 201, made.raw
    assert made.body["spec"] == example("card-parameters")["spec"]
    assert made.body["metadata"]["generation"] == 1


@pytest.mark.parametrize(("spec", "field"), [
    ({"minimumAPI": "1"}, "spec.minimumAPI"),
    ({"supportsPowerSaving": "yes"}, "spec.supportsPowerSaving"),
    ({"requirements": {"ComputeUnits": 0}}, "spec.requirements.ComputeUnits"),
    ({"requirements": {"ComputeUnits": 101}}, "spec.requirements.ComputeUnits"),
    ({"requirements": {"RAM": "much"}}, "spec.requirements.RAM"),
    ({"requirements": {"RAM": 0}}, "spec.requirements.RAM"),
    ({"requirements": {"RAM": "-1Gi"}}, "spec.requirements.RAM"),
])  # fmt: skip
async def test_parameters_that_no_card_has_are_refused(api, spec, field):
    """The vendor's definition validates all fields, with the value ranges of the hardware."""
    await define_cards(api)
    refused = await api.post(CARDS, {**example("card-parameters"), "spec": spec})

    assert refused.status == 422
    assert [cause["field"] for cause in refused.body["details"]["causes"]][:1] == [field]
