"""Claims and classes of cdi.k8s.io as KEP-3063's draft has them: writing, defaults, what is refused."""

import asyncio
import copy
import json

import pytest
import yaml
from recorded import DATA
from server_in_process import Caller, close_server, open_server

from kubeskew.apimachinery import names
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.http.request import Peer

RELEASE = Version(25, "kep3063")
GROUP = "/apis/cdi.k8s.io/v1alpha1"
CLASSES, CLAIMS = f"{GROUP}/resourceclasses", f"{GROUP}/namespaces/default/resourceclaims"
PODS = "/api/v1/namespaces/default/pods"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
GATE = "DynamicResourceAllocation"
CASES = yaml.safe_load((DATA / "drafted-claims.yaml").read_text("utf-8"))
ALLOCATED = {"phase": "Allocated", "driverName": "gpu.example.com"}


@pytest.fixture
async def api():
    """Calls a server of the preview release that has one claim, `c`."""
    server = await open_server(RELEASE)
    caller = Caller(server)
    made = await caller.post(CLAIMS, {"metadata": {"name": "c"}, "spec": {"resourceClassName": "gpu"}})
    assert made.status == 201, made.raw
    yield caller
    await close_server(server)


def user(number):
    """A pod, or every other time a job: users need not be pods."""
    api_version, kind = [("v1", "Pod"), ("batch/v1", "Job")][number % 2]
    return {"apiVersion": api_version, "kind": kind, "name": f"u{number}", "uid": str(number)}


def users(count):
    return [user(number) for number in range(count)]


def errors(answer):
    """The causes of a 422, as `field: message`; a long text about names shortened."""
    assert answer.status == 422, answer.raw
    subdomain = "; ".join(names.dns1123_subdomain("_"))
    causes = answer.body["details"]["causes"]
    return [f"{cause['field']}: {cause['message']}".replace(subdomain, "<subdomain>") for cause in causes]


async def write_status(api, status):
    """Replace the status of the claim `c` by another one."""
    claim = (await api.get(f"{CLAIMS}/c")).body
    return await api.put(f"{CLAIMS}/c/status", {**claim, "status": status})


async def test_a_claim_gets_its_defaults(api):
    """A new claim waits for a pod, is pending and may have one user; a status that is sent along is lost."""
    made = await api.post(
        CLAIMS,
        {
            "metadata": {"name": "new"},
            "spec": {"resourceClassName": "gpu", "parameters": {"memory": "2Gi", "deep": [1, {"a": None}]}},
            "status": ALLOCATED,
        },
    )

    assert made.body["spec"] == {
        "resourceClassName": "gpu",
        "parameters": {"memory": "2Gi", "deep": [1, {"a": None}]},
        "allocationMode": "Delayed",
    }
    assert made.body["status"] == {"phase": "Pending", "userLimit": 1}
    assert (await api.get(f"{CLAIMS}/new")).body == made.body


async def test_a_class_is_cluster_wide_and_may_change(api):
    """A class has a driver's name and parameters of any shape, no namespace, spec or status."""
    body = {
        "metadata": {"name": "gpu"},
        "driverName": "gpu.example.com",
        "parameters": {"init": ["/a", "-b"]},
    }
    made = await api.post(CLASSES, body)
    changed = await api.patch(f"{CLASSES}/gpu", {"driverName": "other.example.com", "parameters": None})

    assert (made.status, made.body["parameters"]) == (201, {"init": ["/a", "-b"]})
    assert {"spec", "status", "namespace"} & {*made.body, *made.body["metadata"]} == set()
    assert (changed.status, changed.body["driverName"]) == (200, "other.example.com")
    assert "parameters" not in changed.body


@pytest.mark.parametrize("case", CASES["objects"])
async def test_bad_classes_and_claims_are_refused(api, case):
    """A driver's name and a mode are checked; the words are those of the kinds as they shipped."""
    refused = await api.post(f"{GROUP}/{case['path']}", {"metadata": {"name": "bad"}, **case["object"]})

    assert errors(refused) == case["errors"]


async def test_the_class_need_not_exist(api):
    """The server does not look for the class of a claim."""
    assert (await api.get(f"{CLASSES}/gpu")).status == 404
    assert (await api.get(f"{CLAIMS}/c")).body["spec"]["resourceClassName"] == "gpu"


async def test_the_spec_is_set_once(api):
    """A claim's spec does not change, its metadata does."""
    refused = await api.patch(f"{CLAIMS}/c", {"spec": {"allocationMode": "Immediate"}})
    labelled = await api.patch(f"{CLAIMS}/c", {"metadata": {"finalizers": ["gpu.example.com/allocated"]}})

    [said] = errors(refused)
    shown = said.removeprefix("spec: Invalid value: ").removesuffix(": field is immutable")
    assert json.loads(shown) == {"resourceClassName": "gpu", "allocationMode": "Immediate"}
    assert labelled.status == 200


async def test_spec_and_status_are_written_apart(api):
    """The claim's own path keeps the status, its status path keeps the spec."""
    claim = (await api.get(f"{CLAIMS}/c")).body
    claim["status"] = ALLOCATED
    first = await api.put(f"{CLAIMS}/c", claim)
    changed = copy.deepcopy(claim) | {"spec": {"resourceClassName": "other"}}
    changed["metadata"].pop("resourceVersion")
    second = await api.put(f"{CLAIMS}/c/status", changed)

    assert first.body["status"]["phase"] == "Pending"
    assert second.body["spec"]["resourceClassName"] == "gpu"
    assert second.body["status"] == {**ALLOCATED, "userLimit": 1}


@pytest.mark.parametrize("case", CASES["statuses"])
async def test_an_impossible_status_is_refused(api, case):
    """A status that a scheduler or driver must not write is refused with the field at fault."""
    assert errors(await write_status(api, case["status"])) == case["errors"]


async def test_the_life_of_a_delayed_claim(api):
    """Scheduler and driver take a claim through its phases, each by what it writes."""
    nodes = {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]
    }
    talk = {
        "scheduler": {"selectedNode": "a", "potentialNodes": ["a", "b"]},
        "driver": {"unsuitableNodes": ["b"], "availableOnNodes": nodes},
    }
    allocated = {**ALLOCATED, "userLimit": 2, "attributes": {"id": "7"}}
    steps = [
        {"scheduling": talk, "driverName": "gpu.example.com"},
        allocated,
        {**allocated, "reservedFor": users(2)},
        {**allocated, "reservedFor": [user(1)]},
        allocated,
        {**allocated, "phase": "Reallocate"},
        {"phase": "Pending"},
        {**allocated, "driverName": "other.example.com", "userLimit": -1, "reservedFor": users(40)},
    ]

    for status in steps:
        written = await write_status(api, status)
        assert written.status == 200, written.raw
        assert written.body["status"] == {"phase": "Pending", "userLimit": 1, **status}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (
            {**ALLOCATED},
            {**ALLOCATED, "driverName": "other.example.com"},
            ['status.driverName: Invalid value: "other.example.com": field is immutable'],
        ),
        (
            {**ALLOCATED, "reservedFor": [user(1)]},
            {**ALLOCATED, "phase": "Reallocate", "reservedFor": [user(1)]},
            ["status.reservedFor: Forbidden: may not be specified when `phase` is not Allocated"],
        ),
        (
            {**ALLOCATED, "reservedFor": [user(1)]},
            {"phase": "Pending", "reservedFor": [user(1)]},
            ["status.reservedFor: Forbidden: may not be specified when `phase` is not Allocated"],
        ),
        (
            {**ALLOCATED, "userLimit": 2, "reservedFor": users(2)},
            {**ALLOCATED, "userLimit": 1, "reservedFor": users(2)},
            ["status.reservedFor: Forbidden: may not be reserved more than once"],
        ),
    ],
)
async def test_an_impossible_change_is_refused(api, before, after, expected):
    """An allocated claim keeps its driver; one in use is not freed."""
    assert (await write_status(api, before)).status == 200

    assert errors(await write_status(api, after)) == expected


async def test_a_claim_that_is_being_freed_is_not_taken_back(api):
    """From Reallocate a claim only becomes pending."""
    await write_status(api, ALLOCATED)
    await write_status(api, {**ALLOCATED, "phase": "Reallocate"})

    refused = await write_status(api, ALLOCATED)

    assert errors(refused) == [
        "status.phase: Forbidden: may only be changed to Pending when it is Reallocate"
    ]


async def test_a_deleted_claim_gets_no_new_users(api):
    """A claim with a finalizer stays after its deletion, for the users that it has."""
    await write_status(api, {**ALLOCATED, "userLimit": -1, "reservedFor": [user(1)]})
    await api.patch(f"{CLAIMS}/c", {"metadata": {"finalizers": ["gpu.example.com/allocated"]}})
    assert (await api.delete(f"{CLAIMS}/c")).status == 200

    refused = await write_status(api, {**ALLOCATED, "userLimit": -1, "reservedFor": users(2)})
    released = await write_status(api, {**ALLOCATED, "userLimit": -1})

    assert errors(refused) == [
        "status.reservedFor: Forbidden: new entries may not be added while `deletionTimestamp` is set"
    ]
    assert released.status == 200


async def test_of_schedulers_that_reserve_at_once_one_wins(api):
    """Reserving is one atomic write: of two of the same version one conflicts, and then is one too many."""
    await write_status(api, ALLOCATED)
    claim = (await api.get(f"{CLAIMS}/c")).body

    async def reserve(number):
        status = {**claim["status"], "reservedFor": [user(number)]}
        return (await api.put(f"{CLAIMS}/c/status", {**claim, "status": status})).status

    assert sorted(await asyncio.gather(reserve(1), reserve(2))) == [200, 409]
    applied = {"apiVersion": "cdi.k8s.io/v1alpha1", "kind": "ResourceClaim", "metadata": {"name": "c"}}
    applied["status"] = {"reservedFor": [user(3)]}
    merged = await api.patch(f"{CLAIMS}/c/status?fieldManager=third&force=true", applied, "apply")
    assert errors(merged) == ["status.reservedFor: Forbidden: may not be reserved more than once"]


def pod(name, claims, used=()):
    containers = [{"name": "c", "image": "i", "resources": {"claims": list(used)}}]
    return {"metadata": {"name": name}, "spec": {"resourceClaims": claims, "containers": containers}}


async def test_pods_name_claims_or_bring_a_template(api):
    """A pod's claims have a name or a template, containers name them; a template gets a claim's defaults."""
    claims = [
        {
            "name": "own",
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"resourceClassName": "gpu"}},
        },
        {"name": "shared", "resourceClaimName": "does-not-exist"},
    ]

    made = await api.post(PODS, pod("p", claims, ["own", "shared"]))

    spec = made.body["spec"]
    assert made.status == 201
    assert spec["containers"][0]["resources"]["claims"] == ["own", "shared"]
    assert spec["resourceClaims"][0]["template"]["spec"]["allocationMode"] == "Delayed"
    assert spec["resourceClaims"][0]["template"]["metadata"]["labels"] == {"a": "b"}
    assert spec["resourceClaims"][1] == claims[1]
    refused = await api.patch(f"{PODS}/p", {"spec": {"resourceClaims": claims[:1]}})
    assert refused.status == 422
    assert "pod updates may not change fields other than" in refused.body["message"]


@pytest.mark.parametrize("case", CASES["pods"])
async def test_bad_claims_of_pods_are_refused(api, case):
    """A pod's claims are checked like a claim's, with the path inside of the pod."""
    assert errors(await api.post(PODS, pod("bad", case["claims"], case["used"]))) == case["errors"]


async def test_the_name_of_a_generated_claim_must_fit(api):
    """A pod whose name makes that of its claim too long is refused; a template of pods is not."""
    claims = [{"name": "g" * 60, "template": {"spec": {"resourceClassName": "gpu"}}}]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("p", claims)["spec"]}
    body = {
        "metadata": {"name": "d" * 240},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }

    refused = await api.post(PODS, pod("p" * 230, claims))

    text = f'spec.resourceClaims[0].name: Invalid value: "{"g" * 60}": final ResourceClaim name: '
    assert errors(refused) == [text + "must be no more than 253 characters"]
    assert (await api.post("/apis/apps/v1/namespaces/default/replicasets", body)).status == 201


async def test_rows(api):
    """Tables show class, mode and phase of claims, a deletion as Terminating, and the driver of classes."""
    await api.patch(f"{CLAIMS}/c", {"metadata": {"finalizers": ["gpu.example.com/allocated"]}})
    before = await api.get(CLAIMS, accept=TABLE)
    await api.delete(f"{CLAIMS}/c")
    after = await api.get(CLAIMS, accept=TABLE)
    await api.post(CLASSES, {"metadata": {"name": "gpu"}, "driverName": "gpu.example.com"})
    classes = await api.get(CLASSES, accept=TABLE)

    columns = [column["name"] for column in before.body["columnDefinitions"]]
    assert columns == ["Name", "ResourceClassName", "AllocationMode", "Phase", "Age"]
    assert before.body["rows"][0]["cells"][:4] == ["c", "gpu", "Delayed", "Pending"]
    assert after.body["rows"][0]["cells"][3] == "Terminating"
    assert [column["name"] for column in classes.body["columnDefinitions"]] == ["Name", "DriverName", "Age"]
    assert classes.body["rows"][0]["cells"][:2] == ["gpu", "gpu.example.com"]


async def test_claims_are_counted_by_quotas(api):
    """A quota limits the number of claims by their own group."""
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"count/resourceclaims.cdi.k8s.io": "1"}}}
    assert (await api.post("/api/v1/namespaces/default/resourcequotas", quota)).status == 201
    status = {"hard": quota["spec"]["hard"], "used": {"count/resourceclaims.cdi.k8s.io": "1"}}
    await api.patch("/api/v1/namespaces/default/resourcequotas/q/status", {"status": status})

    refused = await api.post(CLAIMS, {"metadata": {"name": "d"}, "spec": {"resourceClassName": "gpu"}})

    assert refused.status == 403
    assert "exceeded quota: q, requested: count/resourceclaims.cdi.k8s.io=1" in refused.body["message"]


async def test_explained(api):
    """OpenAPI has the draft's types, and pods refer to the template's spec as claims do."""
    document = (await api.get("/openapi/v3/apis/cdi.k8s.io/v1alpha1")).body["components"]["schemas"]
    core = (await api.get("/openapi/v3/api/v1")).body["components"]["schemas"]

    claim = document["io.k8s.api.cdi.v1alpha1.ResourceClaim"]
    status = document["io.k8s.api.cdi.v1alpha1.ResourceClaimStatus"]["properties"]
    assert claim["required"] == ["spec"]
    assert claim["x-kubernetes-group-version-kind"] == [
        {"group": "cdi.k8s.io", "version": "v1alpha1", "kind": "ResourceClaim"}
    ]
    assert status["reservedFor"]["x-kubernetes-list-map-keys"] == ["uid"]
    assert status["userLimit"]["format"] == "int32"
    template = core["io.k8s.api.core.v1.ResourceClaimTemplate"]["properties"]["spec"]
    assert "io.k8s.api.cdi.v1alpha1.ResourceClaimSpec" in str(template)


async def test_without_the_gate_fields_are_dropped_but_kept_where_used(tmp_path):
    """With the gate off the API is gone, new pods lose the fields, and pods that have them keep them."""
    url = f"sqlite+aiosqlite:///{tmp_path}/log.db"
    claims = [{"name": "g", "template": {"spec": {"resourceClassName": "gpu"}}}]
    on = await open_server(RELEASE, url)
    await Caller(on).post(PODS, pod("old", claims, ["g"]))
    await close_server(on)
    off = await open_server(RELEASE, url, gates={GATE: False})
    api = Caller(off)

    made = await api.post(PODS, pod("new", claims, ["g"]))
    changed = await api.patch(f"{PODS}/old", {"metadata": {"labels": {"a": "b"}}})

    assert "resourceClaims" not in made.body["spec"]
    assert "claims" not in made.body["spec"]["containers"][0]["resources"]
    assert changed.body["spec"]["resourceClaims"][0]["template"]["spec"]["resourceClassName"] == "gpu"
    assert changed.body["spec"]["containers"][0]["resources"]["claims"] == ["g"]
    assert (await api.get(CLAIMS)).status == 404
    assert "cdi.k8s.io" not in [group["name"] for group in (await api.get("/apis")).body["groups"]]
    await close_server(off)


KUBELET = ("system:node:n", "system:nodes")
CONTROLLER = (
    "system:serviceaccount:kube-system:resource-claim-controller",
    "system:serviceaccounts",
    "system:serviceaccounts:kube-system",
)


@pytest.mark.parametrize(
    ("peer", "verb", "resource", "allowed"),
    [
        (("system:kube-scheduler",), "list", "resourceclasses", True),
        (("system:kube-scheduler",), "update", "resourceclasses", False),
        (("system:kube-scheduler",), "patch", "resourceclaims/status", True),
        (("system:kube-scheduler",), "create", "resourceclaims", False),
        (KUBELET, "get", "resourceclaims", True),
        (KUBELET, "watch", "resourceclaims", True),
        (KUBELET, "update", "resourceclaims/status", True),
        (KUBELET, "update", "resourceclaims", False),
        (CONTROLLER, "create", "resourceclaims", True),
        (CONTROLLER, "watch", "resourceclasses", True),
        (CONTROLLER, "update", "resourceclasses", False),
        (CONTROLLER, "update", "resourceclaims/status", True),
        (("jane",), "get", "resourceclaims", False),
    ],
)
async def test_default_roles(api, peer, verb, resource, allowed):
    """Scheduler, kubelets and the claim controller may do what the draft says, nobody else anything."""
    plural, _, subresource = resource.partition("/")
    attributes = {"group": "cdi.k8s.io", "resource": plural, "subresource": subresource, "verb": verb}
    attributes |= {"namespace": "default", "name": "c"} if plural == "resourceclaims" else {}
    caller = Caller(api.server, Peer(peer[0], peer[1:]))
    review = {"spec": {"resourceAttributes": attributes}}
    answer = await caller.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)

    assert answer.body["status"]["allowed"] is allowed


async def test_the_roles_name_no_other_design(api):
    """The roles of the preview release have no rule for the group under which claims shipped."""
    roles = (await api.get("/apis/rbac.authorization.k8s.io/v1/clusterroles")).body["items"]
    groups = {group for role in roles for rule in role["rules"] or () for group in rule.get("apiGroups", ())}

    assert "cdi.k8s.io" in groups
    assert "resource.k8s.io" not in groups


async def test_neither_claims_nor_lists_of_nodes_are_limited(api):
    """A claim may name thousands of nodes, have hundreds of users, and be one of many."""
    names = [f"node-{number}" for number in range(5000)]
    talk = {
        "scheduler": {"selectedNode": names[0], "potentialNodes": names},
        "driver": {"unsuitableNodes": names},
    }
    pending = await write_status(api, {"scheduling": talk, "driverName": "gpu.example.com"})
    used = await write_status(api, {**ALLOCATED, "userLimit": -1, "reservedFor": users(500)})
    made = await asyncio.gather(*(
        api.post(CLAIMS, {"metadata": {"name": f"c{number}"}, "spec": {"resourceClassName": "gpu"}})
        for number in range(300)
    ))  # fmt: skip

    assert pending.body["status"]["scheduling"]["driver"]["unsuitableNodes"] == names
    assert len(used.body["status"]["reservedFor"]) == 500
    assert {answer.status for answer in made} == {201}
