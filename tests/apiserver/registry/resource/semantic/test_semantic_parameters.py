"""Semantic parameters as KEP-4381's draft has them: rules, defaults, selectors, rows."""

from datetime import UTC, datetime

import orjson
import pytest
import yaml
from recorded import DATA
from server_in_process import Caller, close_server, open_server

from kubeskew.apimachinery import names
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.http.request import Peer
from kubeskew.apiserver.storage.records import Author, Change, Key, Verb

RELEASE = Version(29, "kep4381")
GROUP = "/apis/resource.k8s.io/v1alpha2"
SLICES, CLASSES = f"{GROUP}/noderesourceslices", f"{GROUP}/resourceclasses"
PARAMETERS = f"{GROUP}/namespaces/default/resourceclaimparameters"
CLAIMS = f"{GROUP}/namespaces/default/resourceclaims"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
CASES = yaml.safe_load((DATA / "semantic-rules.yaml").read_text("utf-8"))
CARD = {"id": "CardA", "attributes": [{"name": "RAM", "counter": {"count": 1000}}]}
DRIVER = "cards.dra.example.com"
ORIGIN = {"apiGroup": "dra.example.com", "kind": "CardParameters", "name": "my-parameters", "uid": "u"}


@pytest.fixture
async def api():
    """Calls a server of the preview release."""
    server = await open_server(RELEASE)
    yield Caller(server)
    await close_server(server)


def errors(answer):
    """The causes of a 422, as `field: message`; the text about names of subdomains shortened."""
    assert answer.status == 422, answer.raw
    (subdomain,) = names.dns1123_subdomain("_")
    causes = answer.body["details"]["causes"]
    return [f"{cause['field']}: {cause['message']}".replace(subdomain, "<subdomain>") for cause in causes]


def node_slice(name, node="worker-1", driver=DRIVER, resources=(CARD,)):
    return {"metadata": {"name": name}, "nodeName": node, "driverName": driver, "resources": list(resources)}


async def write_status(api, **status):
    """Replaces the status of the claim `c`."""
    claim = (await api.get(f"{CLAIMS}/c")).body
    return await api.put(f"{CLAIMS}/c/status", {**claim, "status": status})


async def listed(api, selector):
    answer = await api.get(f"{SLICES}?fieldSelector={selector.replace('=', '%3D').replace(',', '%2C')}")
    assert answer.status == 200, answer.raw
    return [item["metadata"]["name"] for item in answer.body["items"]]


@pytest.mark.parametrize("case", CASES["objects"], ids=lambda case: case["errors"][0])
async def test_what_is_refused(api, case):
    """Each missing, double or impossible field is named by its path, in the words of structured
    parameters."""
    path = PARAMETERS if case["plural"] == "resourceclaimparameters" else f"{GROUP}/{case['plural']}"

    assert errors(await api.post(path, {"metadata": {"name": "x"}, **case["object"]})) == case["errors"]


async def test_a_resource_with_a_name_has_it_as_its_id(api):
    """The draft's examples give a name, its type has an ID: the name is taken for it, and both are kept."""
    made = await api.post(SLICES, node_slice("s", resources=[{"name": "CardA"}, {"id": "CardB"}]))
    same = await api.post(SLICES, node_slice("t", resources=[{"name": "CardA", "id": "CardA"}]))

    assert made.body["resources"] == [{"id": "CardA", "name": "CardA"}, {"id": "CardB"}]
    assert same.body["resources"] == [{"id": "CardA", "name": "CardA"}]


async def test_a_slice_stays_with_its_node_and_driver(api):
    """Node and driver of a slice may not change; its resources may, down to none."""
    await api.post(SLICES, node_slice("s"))

    refused = await api.patch(f"{SLICES}/s", {"nodeName": "m", "driverName": "e.example.com"})
    empty = await api.patch(f"{SLICES}/s", {"resources": []})
    again = await api.patch(f"{SLICES}/s", {"resources": [CARD]})

    assert errors(refused) == [
        'nodeName: Invalid value: "m": field is immutable',
        'driverName: Invalid value: "e.example.com": field is immutable',
    ]
    assert (empty.status, "resources" in empty.body) == (200, False)
    assert again.body["resources"] == [CARD]


async def test_slices_are_selected_by_node_and_driver(api):
    """A list, a watch and a deletion of many may name node and driver, and no other field."""
    for name, node, driver in (("a", "n1", DRIVER), ("b", "n2", DRIVER), ("c", "n1", "pool.dra.example.com")):
        assert (await api.post(SLICES, node_slice(name, node, driver))).status == 201

    assert await listed(api, "nodeName=n1") == ["a", "c"]
    assert await listed(api, f"driverName={DRIVER}") == ["a", "b"]
    assert await listed(api, f"nodeName=n1,driverName!={DRIVER}") == ["c"]
    assert await listed(api, "metadata.name=b") == ["b"]
    kind, seen = await anext(api.watch(f"{SLICES}?watch=true&fieldSelector=nodeName%3Dn2"))
    assert (kind, seen["metadata"]["name"]) == ("ADDED", "b")
    refused = await api.get(f"{SLICES}?fieldSelector=spec.nodeName%3Dn1")
    assert refused.status == 400
    why = "field label not supported for resource.k8s.io/v1alpha2, Kind=NodeResourceSlice: spec.nodeName"
    assert why in refused.body["message"]
    gone = await api.delete(f"{SLICES}?fieldSelector=nodeName%3Dn1%2CdriverName%3D{DRIVER}")
    assert [item["metadata"]["name"] for item in gone.body["items"]] == ["a"]
    assert await listed(api, "nodeName!=") == ["b", "c"]


async def test_parameters_may_change(api):
    """Parameters are generated again when what they were generated from changes."""
    parameters = [{"name": "RAM", "counter": {"required": 5}}]
    made = await api.post(
        PARAMETERS, {"metadata": {"name": "p"}, "generatedFrom": ORIGIN, "parameters": parameters}
    )
    more = [{"name": "RAM", "counter": {"required": 7}}, {"name": "m", "metadata": {"selector": "true"}}]
    changed = await api.patch(
        f"{PARAMETERS}/p",
        {"generatedFrom": {**ORIGIN, "generation": 2}, "shareable": True, "parameters": more},
    )
    worse = await api.patch(f"{PARAMETERS}/p", {"parameters": [{"name": "m", "metadata": {"selector": "1"}}]})

    assert (made.status, changed.status) == (201, 200)
    assert changed.body["generatedFrom"]["generation"] == 2
    assert (changed.body["shareable"], changed.body["parameters"]) == (True, more)
    assert errors(worse) == ['parameters[0].metadata.selector: Invalid value: "1": must evaluate to bool']


async def test_rows(api):
    """Slices show node and driver, parameters what they were generated from."""
    await api.post(SLICES, node_slice("s"))
    await api.post(PARAMETERS, {"metadata": {"name": "p"}, "generatedFrom": ORIGIN})
    slices, parameters = [(await api.get(path, accept=TABLE)).body for path in (SLICES, PARAMETERS)]

    assert [column["name"] for column in slices["columnDefinitions"]] == [
        "Name", "NodeName", "DriverName", "Age",
    ]  # fmt: skip
    assert slices["rows"][0]["cells"][:3] == ["s", "worker-1", DRIVER]
    assert parameters["rows"][0]["cells"][:2] == ["p", "CardParameters.dra.example.com my-parameters"]


@pytest.mark.parametrize("case", CASES["handles"], ids=lambda case: "".join(case["errors"]) or "fine")
async def test_handles_hold_one_kind_of_data(api, case):
    """A handle is opaque or semantic; what is semantic names node, resource, attribute and amount."""
    await api.post(CLAIMS, {"metadata": {"name": "c"}, "spec": {"resourceClassName": "cards"}})
    allocation = {"resourceHandles": [{"driverName": DRIVER, **case["handle"]}]}
    written = await write_status(api, driverName=DRIVER, allocation=allocation)

    if case["errors"]:
        at = "status.allocation.resourceHandles[0]"
        assert errors(written) == [f"{at}{text}" for text in case["errors"]]
    else:
        assert written.body["status"]["allocation"] == allocation


async def test_a_class_names_types_of_parameters_and_may_change(api):
    """A class may allow vendors' types and the native one, and lose them again."""
    types = [
        {"apiGroup": "dra.example.com", "kind": "CardParameters"},
        {"apiGroup": "resource.k8s.io", "kind": "ResourceClaimParameters"},
        {"kind": "ConfigMap"},
    ]
    made = await api.post(CLASSES, {"metadata": {"name": "c"}, "driverName": DRIVER, "parameterTypes": types})
    changed = await api.patch(f"{CLASSES}/c", {"parameterTypes": None})

    assert made.body["parameterTypes"] == types
    assert (changed.status, "parameterTypes" in changed.body) == (200, False)


FRACTION = {"fraction": {"parts": 7}}
NO_MODEL = "Required value: exactly one semantic model field must be set"


async def store_newer(api, resource, name, change, namespace=""):
    """Has a newer server change the object in the store."""
    store = api.server.services.store
    entry = store.get(Key(f"{resource}.resource.k8s.io", namespace, name))
    obj = orjson.loads(entry.value)
    change(obj)
    author, now = Author("admin", "kube-apiserver", "v1.31.0", "v1.31.0", ""), datetime.now(UTC)
    value = orjson.dumps(obj)
    await store.write(Change(Verb.UPDATE, entry.key, entry.uid, value, entry.revision, author, now))


async def test_a_slice_with_a_model_that_came_later_is_shown_and_not_written(api):
    """The attribute has no model to this server, which refuses every write of the slice but its deletion."""
    await api.post(SLICES, node_slice("s"))
    later = {"name": "Fraction", **FRACTION}
    await store_newer(
        api, "noderesourceslices", "s", lambda obj: obj["resources"][0]["attributes"].append(later)
    )

    shown = (await api.get(f"{SLICES}/s")).body["resources"][0]["attributes"]
    refused = await api.patch(f"{SLICES}/s", {"metadata": {"labels": {"a": "b"}}})
    removed = await api.delete(f"{SLICES}/s")

    assert shown == [*CARD["attributes"], {"name": "Fraction"}]
    assert errors(refused) == [f"resources[0].attributes[1]: {NO_MODEL}"]
    assert removed.status == 200


async def test_parameters_with_a_model_that_came_later_are_shown_and_not_written(api):
    """The parameter has no model to this server; what is generated again may take its place."""
    parameters = [{"name": "RAM", "counter": {"required": 5}}]
    await api.post(PARAMETERS, {"metadata": {"name": "p"}, "parameters": parameters})
    later = {"name": "Fraction", **FRACTION}
    await store_newer(
        api, "resourceclaimparameters", "p", lambda obj: obj["parameters"].append(later), "default"
    )

    shown = (await api.get(f"{PARAMETERS}/p")).body["parameters"]
    refused = await api.patch(f"{PARAMETERS}/p", {"shareable": True})
    renewed = await api.patch(f"{PARAMETERS}/p", {"parameters": parameters})

    assert shown == [*parameters, {"name": "Fraction"}]
    assert errors(refused) == [f"parameters[1]: {NO_MODEL}"]
    assert renewed.status == 200


async def test_a_claim_that_was_allocated_by_a_later_model_can_only_be_freed(api):
    """Its status is refused as long as it holds what this server cannot read, and may be emptied at once."""
    await api.post(CLAIMS, {"metadata": {"name": "c"}, "spec": {"resourceClassName": "cards"}})
    counted = {"counter": {"resourceID": "CardA", "name": "RAM", "count": 5}}
    handle = {"driverName": DRIVER, "semanticData": {"nodeName": "n", "allocations": [counted]}}
    allocation = {"resourceHandles": [handle]}
    user = {"resource": "pods", "name": "p", "uid": "1"}
    await write_status(api, driverName=DRIVER, allocation=allocation, reservedFor=[user])

    def allocate(claim):
        handles = claim["status"]["allocation"]["resourceHandles"]
        handles[0]["semanticData"]["allocations"].append(FRACTION)

    await store_newer(api, "resourceclaims", "c", allocate, "default")
    released = await api.patch(f"{CLAIMS}/c/status", {"status": {"reservedFor": None}})
    freed = await api.patch(f"{CLAIMS}/c/status", {"status": None})

    at = "status.allocation.resourceHandles[0].semanticData.allocations[1]"
    assert errors(released) == [f"{at}: {NO_MODEL}"]
    assert (freed.status, freed.body["status"]) == (200, {})


async def test_a_model_that_came_later_cannot_be_written(api):
    """A writer that is ahead of the server learns of the unknown field, or of the missing model."""
    resource = {"id": "a", "attributes": [{"name": "f", **FRACTION}]}
    strict = await api.post(f"{SLICES}?fieldValidation=Strict", node_slice("s", resources=[resource]))
    ignoring = await api.post(f"{SLICES}?fieldValidation=Ignore", node_slice("s", resources=[resource]))

    assert strict.status == 400
    assert 'unknown field "resources[0].attributes[0].fraction"' in strict.body["message"]
    assert errors(ignoring) == [f"resources[0].attributes[0]: {NO_MODEL}"]


SCHEDULER = ("system:kube-scheduler",)
CONTROLLER = (
    "system:serviceaccount:kube-system:resource-claim-controller",
    "system:serviceaccounts",
    "system:serviceaccounts:kube-system",
)


@pytest.mark.parametrize(
    ("peer", "verb", "resource", "allowed"),
    [
        (SCHEDULER, "watch", "noderesourceslices", True),
        (SCHEDULER, "update", "noderesourceslices", False),
        (SCHEDULER, "watch", "resourceclaimparameters", True),
        (SCHEDULER, "create", "resourceclaimparameters", False),
        (SCHEDULER, "update", "resourceclaims", True),  # the finalizer
        (SCHEDULER, "update", "resourceclaims/status", True),
        (SCHEDULER, "list", "resourceslices", False),
        (SCHEDULER, "list", "cardparameters.dra.example.com", False),
        (CONTROLLER, "update", "resourceclaims", True),
        (CONTROLLER, "update", "resourceclaims/status", True),
        (CONTROLLER, "get", "noderesourceslices", False),
        (("jane",), "get", "noderesourceslices", False),
        (("jane",), "get", "resourceclaimparameters", False),
    ],
)
async def test_default_roles_of_semantic_parameters(api, peer, verb, resource, allowed):
    """Scheduler and claim controller may do what the draft has them do; vendors' types are nobody's."""
    name, _, subresource = resource.partition("/")
    plural, _, group = name.partition(".")
    attributes = {"group": group or "resource.k8s.io", "resource": plural, "verb": verb}
    attributes |= {"subresource": subresource, "namespace": "default", "name": "c"}
    caller = Caller(api.server, Peer(peer[0], peer[1:]))
    review = {"spec": {"resourceAttributes": attributes}}
    answer = await caller.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)

    assert answer.body["status"]["allowed"] is allowed
