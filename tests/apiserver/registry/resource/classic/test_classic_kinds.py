"""Classic claims, classes and contexts as they shipped, 1.26 to 1.31: rules, defaults, rows."""

import json

import pytest
import yaml
from recorded import DATA
from rule_checks import context_of
from server_in_process import Caller, close_server, open_server

from kubeskew.apimachinery import names
from kubeskew.apimachinery.catalogue import catalogue_for
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.registry.resource.classic.structured_parameters import ClaimParametersStrategy

GATE, CONTROLLER = "DynamicResourceAllocation", "DRAControlPlaneController"
PODS = "/api/v1/namespaces/default/pods"
VERSIONS = {26: "v1alpha1", 27: "v1alpha2", 28: "v1alpha2", 29: "v1alpha2", 30: "v1alpha2", 31: "v1alpha3"}
SELECTORS = yaml.safe_load((DATA / "named-resources-selectors.yaml").read_text("utf-8"))
CASES = yaml.safe_load((DATA / "classic-rules.yaml").read_text("utf-8"))
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
POD_USER = {"resource": "pods", "name": "p", "uid": "1"}


class Group:
    """The group resource.k8s.io of a server of a minor."""

    def __init__(self, server, minor):
        self.server, self.call = server, Caller(server)
        self.base = f"/apis/resource.k8s.io/{VERSIONS[minor]}"

    def path(self, plural):
        is_cluster = plural.startswith(("resourceclasses", "deviceclasses", "resourceslices"))
        return f"{self.base}/{plural}" if is_cluster else f"{self.base}/namespaces/default/{plural}"

    async def create(self, plural, name="x", **fields):
        return await self.call.post(self.path(plural), {"metadata": {"name": name}, **fields})

    async def write_status(self, name, **status):
        claim = (await self.call.get(self.path(f"resourceclaims/{name}"))).body
        return await self.call.put(self.path(f"resourceclaims/{name}/status"), {**claim, "status": status})


@pytest.fixture
async def group(request):
    """The group at the minor that the test asks for, with the gates it adds."""
    minor, *gates = request.param if isinstance(request.param, tuple) else (request.param,)
    served = {f"resource.k8s.io/{VERSIONS[minor]}": True}
    server = await open_server(minor, gates=dict.fromkeys([GATE, *gates], True), runtime_config=served)
    yield Group(server, minor)
    await close_server(server)


def errors(answer):
    """The causes of a 422, as `field: message`; long texts about names shortened."""
    assert answer.status == 422, answer.raw
    (subdomain,), (label,) = names.dns1123_subdomain("_"), names.dns1123_label("_")
    found = [f"{cause['field']}: {cause['message']}" for cause in answer.body["details"]["causes"]]
    return [text.replace(subdomain, "<subdomain>").replace(label, "<label>") for text in found]


@pytest.mark.parametrize("group", range(26, 31), indirect=True)
async def test_claims_wait_for_a_pod(group):
    """Claims and templates get the delayed mode in every release; an empty class name is reported once."""
    claim = await group.create("resourceclaims", spec={"resourceClassName": "c"})
    template = await group.create("resourceclaimtemplates", spec={"spec": {"resourceClassName": "c"}})
    bad = await group.create("resourceclaims", "y", spec={"resourceClassName": ""})

    assert claim.body["spec"]["allocationMode"] == "WaitForFirstConsumer"
    assert template.body["spec"]["spec"]["allocationMode"] == "WaitForFirstConsumer"
    assert errors(bad) == ['spec.resourceClassName: Invalid value: "": <subdomain>']


@pytest.mark.parametrize("group", [26, 30], indirect=True)
async def test_an_allocation_is_not_exchanged(group):
    """Once there, an allocation goes as a whole or stays as it is; with it may go the driver's name."""
    await group.create("resourceclaims", spec={"resourceClassName": "c"})
    first = {"driverName": "d.example.com", "allocation": {"shareable": True}}
    assert (await group.write_status("x", **first, reservedFor=[POD_USER])).status == 200

    changed = await group.write_status("x", **{**first, "allocation": {}})
    asked = await group.write_status("x", **first, deallocationRequested=True)
    freed = await group.write_status("x")

    assert errors(changed) == ["status.allocation: Invalid value: {}: field is immutable"]
    assert (asked.status, freed.status, freed.body["status"]) == (200, 200, {})


@pytest.mark.parametrize(("group", "kept"), [(29, False), (30, True)], indirect=["group"])
async def test_whether_a_status_write_changes_metadata(group, kept):
    """Labels may change with the status until 1.29, of claims and of scheduling contexts."""
    await group.create("resourceclaims", spec={"resourceClassName": "c"})
    await group.create("podschedulingcontexts", spec={})
    for plural in ("resourceclaims", "podschedulingcontexts"):
        path = group.path(f"{plural}/x/status")
        assert (await group.call.patch(path, {"metadata": {"labels": {"a": "b"}}})).status == 200
        labels = (await group.call.get(group.path(f"{plural}/x"))).body["metadata"].get("labels")
        assert labels == (None if kept else {"a": "b"})


@pytest.mark.parametrize(("group", "status"), [(26, 201), (27, 422), (31, 422)], indirect=["group"])
async def test_names_of_claims_in_pods_are_checked_since_1_27(group, status):
    """1.26 takes any name of a template."""
    claim = {"resourceClaimTemplateName": "Bad_"}
    entry = {"name": "g", **(claim if group.base.endswith("v1alpha3") else {"source": claim})}
    spec = {"resourceClaims": [entry], "containers": [{"name": "c", "image": "i"}]}

    assert (await group.call.post(PODS, {"metadata": {"name": "p"}, "spec": spec})).status == status


@pytest.mark.parametrize(("group", "status"), [(27, 422), (28, 201)], indirect=["group"])
async def test_generated_names_must_fit_until_1_27(group, status):
    """A template's claim is named after pod and entry until 1.27, and part of its name is random since."""
    claim = {"name": "g" * 10, "source": {"resourceClaimTemplateName": "t"}}
    spec = {"resourceClaims": [claim], "containers": [{"name": "c", "image": "i"}]}
    made = await group.call.post(PODS, {"metadata": {"name": "p" * 250}, "spec": spec})

    assert made.status == status
    if status == 422:
        text = "final ResourceClaim name: must be no more than 253 characters"
        assert errors(made) == [f'spec.resourceClaims[0].name: Invalid value: "{"g" * 10}": {text}']


@pytest.mark.parametrize("group", [31, (31, CONTROLLER)], indirect=True)
async def test_contexts_of_1_31_are_served_without_the_gate(group):
    """Contexts can be removed with the gate off; the fields of claims and classes need it."""
    nodes = {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]
    }
    context = await group.create("podschedulingcontexts", spec={"selectedNode": "n"})
    claim = await group.create("resourceclaims", spec={"controller": "d.example.com", "devices": {}})
    made = await group.create("deviceclasses", spec={"suitableNodes": nodes})
    gates = group.server.services.environment.gates

    assert context.status == 201
    assert ("controller" in claim.body["spec"]) is gates.enabled(CONTROLLER)
    assert ("suitableNodes" in made.body["spec"]) is gates.enabled(CONTROLLER)
    assert (await group.call.delete(group.path("podschedulingcontexts/x"))).status == 200


@pytest.mark.parametrize(("group", "columns"), [
    (26, {"podschedulings": ["Name", "SelectedNode", "Age"]}),
    (30, {
        "podschedulingcontexts": ["Name", "SelectedNode", "Age"],
        "resourceclaims": ["Name", "ResourceClassName", "AllocationMode", "State", "Age"],
        "resourceclaimtemplates": ["Name", "ResourceClassName", "AllocationMode", "Age"],
        "resourceclasses": ["Name", "DriverName", "Age"],
        "resourceclaimparameters": ["Name", "GeneratedFrom", "Age"],
        "resourceclassparameters": ["Name", "GeneratedFrom", "Age"],
        "resourceslices": ["Name", "NodeName", "DriverName", "Age"],
    }),
], indirect=["group"])  # fmt: skip
async def test_columns(group, columns):
    """Tables have the columns of upstream's printers."""
    for plural, expected in columns.items():
        table = (await group.call.get(group.path(plural), accept=TABLE)).body
        assert [column["name"] for column in table["columnDefinitions"]] == expected


@pytest.mark.parametrize("group", [30], indirect=True)
async def test_rows_of_structured_kinds(group):
    """Slices show node and driver, parameters what they were generated from."""
    named = {"namedResources": {"instances": [{"name": "a"}]}}
    await group.create("resourceslices", nodeName="n", driverName="d.example.com", **named)
    origin = {"apiGroup": "example.com", "kind": "Gpu", "name": "big"}
    await group.create("resourceclaimparameters", generatedFrom=origin)
    cells = {
        plural: (await group.call.get(group.path(plural), accept=TABLE)).body["rows"][0]["cells"]
        for plural in ("resourceslices", "resourceclaimparameters")
    }

    assert cells["resourceslices"][:3] == ["x", "n", "d.example.com"]
    assert cells["resourceclaimparameters"][:2] == ["x", "Gpu.example.com big"]


@pytest.mark.parametrize("group", [30], indirect=True)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["plural"])
async def test_structured_parameters_of_1_30(group, case):
    """Slices and parameters are checked in upstream's words."""
    assert errors(await group.create(case["plural"], **case["object"])) == case["errors"]


@pytest.mark.parametrize("group", [30], indirect=True)
async def test_a_slice_stays_with_its_node_and_driver(group):
    """Node and driver of a slice may not change; its resources may."""
    named = {"namedResources": {"instances": [{"name": "a"}]}}
    await group.create("resourceslices", nodeName="n", driverName="d.example.com", **named)
    path = group.path("resourceslices/x")

    refused = await group.call.patch(path, {"nodeName": "m", "driverName": "e.example.com"})
    changed = await group.call.patch(path, {"namedResources": {"instances": [{"name": "b"}]}})

    assert errors(refused) == [
        'nodeName: Invalid value: "m": field is immutable',
        'driverName: Invalid value: "e.example.com": field is immutable',
    ]
    assert changed.status == 200


@pytest.mark.parametrize("group", [30], indirect=True)
async def test_handles_hold_one_kind_of_data(group):
    """A handle has opaque or structured data, and structured results name what they are of."""
    await group.create("resourceclaims", spec={"resourceClassName": "c"})
    structured = {"nodeName": "n", "results": [{}]}
    handle = {"driverName": "d.example.com", "data": "x", "structuredData": structured}
    refused = await group.write_status(
        "x", driverName="d.example.com", allocation={"resourceHandles": [handle]}
    )

    at = "status.allocation.resourceHandles[0]"
    assert errors(refused) == [
        f"{at}.structuredData.results[0]: Required value: exactly one structured model field must be set",
        f'{at}: Invalid value: "null": data and structuredData are mutually exclusive',
    ]


def _parameters(plural, selector):
    """The fields of parameters with a selector, and where it stands in them."""
    named = {"driverName": "d.example.com", "namedResources": {"selector": selector}}
    if plural == "resourceclassparameters":
        return {"filters": [named]}, "filters[0].namedResources.selector"
    requests = {"driverName": named.pop("driverName"), "requests": [named]}
    return {"driverRequests": [requests]}, "driverRequests[0].requests[0].namedResources.selector"


@pytest.mark.parametrize("group", [30], indirect=True)
@pytest.mark.parametrize("plural", ["resourceclaimparameters", "resourceclassparameters"])
async def test_selectors_of_named_resources_are_compiled(group, plural):
    """Requests and filters with expressions of each type are taken; what does not compile to a boolean is
    refused in upstream's words.
    """
    for position, selector in enumerate(SELECTORS["good"]):
        fields, _ = _parameters(plural, selector)
        assert (await group.create(plural, f"good-{position}", **fields)).status == 201, selector
    for case in SELECTORS["bad"]:
        fields, at = _parameters(plural, case["selector"])
        shown = json.dumps(case["selector"])
        expected = f"{at}: Invalid value: {shown}: {case['detail']}"
        assert errors(await group.create(plural, "bad", **fields)) == [expected]


@pytest.mark.parametrize("stored", [False, True])
def test_selectors_that_stay_may_be_of_a_later_release(stored):
    """Functions of 1.30 are for stored expressions only, which requests are as long as none changes."""
    selector = "ip('10.0.0.1').family() == 4"
    fields, at = _parameters("resourceclaimparameters", selector)
    before = {"metadata": {"name": "x"}, **fields}
    changed = {**before, "shareable": True} if stored else {**before, "driverRequests": [
        {**fields["driverRequests"][0], "vendorParameters": {"a": 1}},
    ]}  # fmt: skip
    catalogue = catalogue_for(Version(30), runtime_config={"resource.k8s.io/v1alpha2": True})
    resource = catalogue.resource("resource.k8s.io", "v1alpha2", "resourceclaimparameters")
    context = context_of(catalogue, resource)
    found = ClaimParametersStrategy().validate_as_new(changed, before, context)

    assert [error.path for error in found] == ([] if stored else [at])


@pytest.mark.parametrize("group", [30], indirect=True)
async def test_how_often_a_changed_object_is_checked(group):
    """Classes are checked as new objects twice, parameters once, as upstream's strategies call the checks."""
    selector, driver = {"namedResources": {"selector": "true"}}, "d.example.com"
    await group.create("resourceclasses", driverName=driver)
    await group.create("resourceclassparameters", filters=[{"driverName": driver, **selector}])
    bad_class = await group.call.patch(group.path("resourceclasses/x"), {"driverName": "_"})
    bad_filter = [{"driverName": driver, "namedResources": {"selector": "1"}}]
    bad_parameters = await group.call.patch(group.path("resourceclassparameters/x"), {"filters": bad_filter})

    assert errors(bad_class) == 2 * ['driverName: Invalid value: "_": <subdomain>']
    text = 'filters[0].namedResources.selector: Invalid value: "1": must evaluate to bool'
    assert errors(bad_parameters) == [text]


@pytest.mark.parametrize("group", [27, 30], indirect=True)
async def test_a_handle_names_its_driver(group):
    """An allocation is refused where one of its handles names none."""
    await group.create("resourceclaims", spec={"resourceClassName": "c"})
    handles = [{"data": "x"}]
    refused = await group.write_status(
        "x", driverName="d.example.com", allocation={"resourceHandles": handles}
    )

    at = "status.allocation.resourceHandles[0].driverName"
    assert errors(refused) == [f"{at}: Required value", f'{at}: Invalid value: "": <subdomain>']
