"""Writes and errors of a real kube-apiserver 1.36.3 that random histories found ours to differ in."""

import json

import pytest
from server_in_process import Caller, close_server, open_server

from kubeskew.apimachinery.go_formats import quoted

pytestmark = pytest.mark.asyncio(loop_scope="module")

CORE, APPS, BATCH = (
    "/api/v1/namespaces/default",
    "/apis/apps/v1/namespaces/default",
    "/apis/batch/v1/namespaces/default",
)
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CONTAINERS = [{"name": "main", "image": "busybox"}]
JOB = {"template": {"spec": {"restartPolicy": "Never", "containers": CONTAINERS}}}
CLAIM = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}


def causes(answer) -> list[tuple[str, str]]:
    return [(cause["field"], cause["message"]) for cause in answer.body["details"]["causes"]]


def revision(answer) -> str:
    return answer.body["metadata"]["resourceVersion"]


@pytest.mark.parametrize(
    ("collection", "spec"), [(f"{BATCH}/jobs", JOB), (f"{CORE}/persistentvolumeclaims", CLAIM)]
)
async def test_defaults_that_only_reading_adds(call, collection: str, spec: dict) -> None:
    """A create resets fields that have defaults: they are stored by the first write that follows."""
    made = await call.post(collection, {"metadata": {"name": "once"}, "spec": spec})
    first = await call.patch(f"{collection}/once", {})
    second = await call.patch(f"{collection}/once", {})
    assert revision(made) != revision(first)
    assert revision(first) == revision(second)
    assert {**made.body, "metadata": 0} == {**first.body, "metadata": 0}


async def test_labels_of_jobs(call) -> None:
    """A Job is read with its template's labels unless it has some; what was copied for a name has its own."""
    made = await call.post(f"{BATCH}/jobs", {"metadata": {"name": "a"}, "spec": JOB})
    assert made.body["metadata"]["labels"] == made.body["spec"]["template"]["metadata"]["labels"]
    labelled = {"template": {**JOB["template"], "metadata": {"labels": {"a": "b"}}}}
    named = await call.post(f"{BATCH}/jobs", {"metadata": {"generateName": "c-"}, "spec": labelled})
    assert named.body["metadata"]["labels"] == {"a": "b"}
    assert "job-name" in named.body["spec"]["template"]["metadata"]["labels"]
    status = await call.put(f"{BATCH}/jobs/a/status", {"metadata": {"name": "a"}})
    assert status.body["metadata"]["labels"] == made.body["metadata"]["labels"]


async def test_who_scales_has_no_time(call) -> None:
    """The entry of a manager that scales is made without a time; conflicts are sorted by identifiers."""
    selector = {"matchLabels": {"app": "web"}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": CONTAINERS}}
    body = {"metadata": {"name": "a"}, "spec": {"selector": selector, "template": template}}
    await call.post(f"{APPS}/statefulsets", body)
    await call.patch(f"{APPS}/statefulsets/a/scale", {"spec": {"replicas": 3}})
    entries = (await call.get(f"{APPS}/statefulsets/a")).body["metadata"]["managedFields"]
    assert [("subresource" in entry, "time" in entry) for entry in entries] == [(True, False), (False, True)]
    config = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "a"},
        "spec": {"replicas": 1, "updateStrategy": {"type": "OnDelete"}},
    }
    refused = await call.patch(
        f"{APPS}/statefulsets/a?fieldManager=b",
        config,
        "apply",
    )
    lines = [line for line in refused.body["message"].split("\n") if "conflicts with" in line]
    assert ["subresource" in line for line in lines] == [True, False]


async def test_an_empty_list_in_a_list_that_is_owned_whole(call) -> None:
    """Go tells an empty list from none there, so that who sends one comes to own the outer list."""
    path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
    rule = {"apiGroups": ["apps"], "resources": ["*"], "verbs": ["*"]}
    await call.post(path, {"metadata": {"name": "a"}, "rules": [rule]})
    same = await call.put(f"{path}/a?fieldManager=one", {"metadata": {"name": "a"}, "rules": [rule]})
    assert [entry["manager"] for entry in same.body["metadata"]["managedFields"]] != ["one"]
    sent = {"metadata": {"name": "a"}, "rules": [{**rule, "nonResourceURLs": []}]}
    taken = await call.put(f"{path}/a?fieldManager=one", sent)
    assert [entry["manager"] for entry in taken.body["metadata"]["managedFields"]] == ["one"]


SELECTED = {"scopeSelector": {"matchExpressions": [{"scopeName": "Terminating", "operator": "a > b"}]}}
TERMS = [{"matchExpressions": [], "matchFields": []}, {"matchFields": []}]
POOL = {"name": "x", "generation": 1, "resourceSliceCount": 1}
FULL = "a fully qualified name must be a domain and a name separated by a slash"


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        (  # Texts of a named type are shown as JSON.
            f"{CORE}/resourcequotas",
            {"metadata": {"name": "x"}, "spec": SELECTED},
            (
                "spec.scopeSelector.matchExpressions.operator",
                'Invalid value: "a \\u003e b": not a valid selector operator',
            ),
        ),
        (
            "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
            {
                "metadata": {"name": "x"},
                "spec": {"devices": {"constraints": [{"distinctAttribute": "a > b"}]}},
            },
            ("spec.devices.constraints[0].distinctAttribute", f'Invalid value: "a \\u003e b": {FULL}'),
        ),
        (
            SLICES,
            {
                "metadata": {"name": "x"},
                "spec": {"driver": "d", "pool": POOL, "nodeSelector": {"nodeSelectorTerms": TERMS}},
            },
            (
                "spec.nodeSelector.nodeSelectorTerms",
                (
                    'Invalid value: [{"MatchExpressions":[],"MatchFields":[]},'
                    '{"MatchExpressions":null,"MatchFields":[]}]: must have exactly one node selector term'
                ),
            ),
        ),
    ],
)
async def test_values_in_errors(call, path: str, body: dict, expected: tuple[str, str]) -> None:
    """A cause shows a value as Go does."""
    assert expected in causes(await call.post(path, body))


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (
            {"type": "array", "items": 3},
            (".properties[a].items", "Required value: must be specified"),
        ),
        (
            {"type": "array", "items": []},
            (".properties[a].items", "Required value: must be specified"),
        ),
        (
            {"definitions": {"b": {"type": "c"}}},
            (
                ".properties[a].definitions[b].type",
                (
                    'Unsupported value: "c": supported values: "array", "boolean", "integer", "number", '
                    '"object", "string"'
                ),
            ),
        ),
        (
            {"type": "string", "additionalItems": {}},
            (".properties[a].additionalItems", "Forbidden: additionalItems is not supported"),
        ),
    ],
)
async def test_schemas_that_are_refused(call, schema: dict, expected: tuple[str, str]) -> None:
    """Upstream reads neither a schema nor a list as an empty value, and looks into unsupported parts."""
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    whole = {"type": "object", "properties": {"a": schema}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": whole}}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    answer = await call.post(DEFINITIONS, {"metadata": {"name": "things.example.com"}, "spec": spec})
    at, message = expected
    assert (f"spec.validation.openAPIV3Schema{at}", message) in causes(answer)


@pytest.mark.parametrize("own", ["\ue0007\ue001", "\ue0000\ue001", "\ue0000\ue0010\ue001"])
async def test_private_characters_of_a_patch_that_cannot_be_read(call, own: str) -> None:
    """Texts that the patch or the object has without escapes are shown as they are, with any characters."""
    made = await call.post(f"{CORE}/configmaps", {"metadata": {"generateName": "own-"}, "data": {"x": own}})
    path = f"{CORE}/configmaps/{made.body['metadata']['name']}"
    sent = f'{{"data": {{"a": "\\u00fc", "c": "{own}", "b": 1}}}}'.encode()
    wrong = await call.patch(path, sent)
    assert wrong.status == 422
    shown = f'"data":{{"a":"\\u00fc","b":1,"c":"{own}","x":"{own}"}}'
    assert quoted(shown)[1:-1] in wrong.body["message"]


async def test_addresses_of_pods(call) -> None:
    """Addresses whose families cannot be told have an error of their own."""
    await call.post(f"{CORE}/serviceaccounts", {"metadata": {"name": "default"}})
    await call.post(f"{CORE}/pods", {"metadata": {"name": "ips"}, "spec": {"containers": CONTAINERS}})
    status = {"podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}, {"ip": "x/"}]}
    answer = await call.patch(f"{CORE}/pods/ips/status", {"status": status})
    assert (
        "status.podIPs",
        "Internal error: failed to check for dual stack with error:invalid IP[1]: x/",
    ) in (causes(answer))


async def test_patches_that_cannot_be_read(call) -> None:
    """Texts of the patch keep their escapes; an object of another kind is read before it is refused."""
    await call.post(f"{CORE}/configmaps", {"metadata": {"name": "a"}})
    wrong = await call.patch(f"{CORE}/configmaps/a", {"data": {"a": "\u00fc", "b": 1}})
    assert json.dumps('"a":"\\u00fc"')[1:-1] in wrong.body["message"]
    operations = [
        {"op": "replace", "path": "/metadata", "value": {"selfLink": 3}},
        {"op": "replace", "path": "/kind", "value": "LimitRange"},
    ]
    other = await call.patch(f"{CORE}/configmaps/a", operations, "json")
    why = "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.selfLink of type string"
    assert other.body["message"].endswith(why)


async def test_keys_of_the_affinity_of_a_volume(call) -> None:
    """A key that no other one followed may become empty, as far as the affinity's own rule goes."""
    term = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["n"]}]}
    affinity = {"required": {"nodeSelectorTerms": [term]}}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "local": {"path": "/a"},
        "nodeAffinity": affinity,
    }
    await call.post("/api/v1/persistentvolumes", {"metadata": {"name": "a"}, "spec": spec})
    for name, changed in (("", False), ("b", True)):
        operation = {
            "op": "replace",
            "path": "/spec/nodeAffinity/required/nodeSelectorTerms/0/matchExpressions/0/key",
            "value": name,
        }
        answer = await call.patch("/api/v1/persistentvolumes/a", [operation], "json")
        assert any(field == "nodeAffinity" for field, _ in causes(answer)) is changed


LONG = "x" * 64
UNKNOWN = {"scheduling": {"tolerations": [{"key": "a", "operator": "Gt"}]}, "handler": "h"}
SELECTOR = {"matchLabels": {"app": "web"}}
UNLABELLED = {"selector": SELECTOR, "template": {"spec": {"containers": CONTAINERS}}}


@pytest.mark.parametrize(
    ("minor", "path", "body", "expected"),
    [
        (
            34,
            "/apis/node.k8s.io/v1/runtimeclasses",
            UNKNOWN,
            (
                "scheduling.tolerations.tolerations[0].operator",
                'Unsupported value: "Gt": supported values: "Equal", "Exists"',
            ),
        ),
        (
            35,
            "/apis/node.k8s.io/v1/runtimeclasses",
            UNKNOWN,
            (
                "scheduling.tolerations[0].operator",
                'Unsupported value: "Gt": supported values: "Equal", "Exists", "Lt", "Gt"',
            ),
        ),
        (
            33,
            f"{APPS}/deployments",
            {"spec": UNLABELLED},
            (
                "spec.template.metadata.labels",
                "Invalid value: map[string]string(nil): `selector` does not match template `labels`",
            ),
        ),
        (
            34,
            f"{CORE}/configmaps",
            {"metadata": {"name": "x", "labels": {LONG: "a"}}},
            (
                "metadata.labels",
                f'Invalid value: "{LONG}": name part must be no more than 63 characters',
            ),
        ),
        (
            35,
            f"{CORE}/configmaps",
            {"metadata": {"name": "x", "labels": {LONG: "a"}}},
            ("metadata.labels", f'Invalid value: "{LONG}": name part must be no more than 63 bytes'),
        ),
        (
            33,
            f"{CORE}/limitranges",
            {"spec": {"limits": [{"type": "Pod", "max": {"a": "1"}}]}},
            (
                "spec.limits[0].max[a]",
                "Invalid value: a: must be a standard resource type or fully qualified",
            ),
        ),
        (
            31,
            f"{CORE}/configmaps?fieldManager={'x' * 129}",
            {},
            ("fieldManager", "Too long: must have at most 128 bytes"),
        ),
        (
            32,
            f"{CORE}/configmaps?fieldManager={'x' * 129}",
            {},
            ("fieldManager", "Too long: may not be more than 128 bytes"),
        ),
    ],
)
async def test_texts_of_releases(minor: int, path: str, body: dict, expected: tuple[str, str]) -> None:
    """Each release has its own words, places and forms of values."""
    server = await open_server(minor)
    try:
        answer = await Caller(server).post(path, {"metadata": {"name": "x"}, **body})
    finally:
        await close_server(server)
    assert expected in causes(answer)


@pytest.mark.parametrize(("minor", "managers"), [(32, 1), (33, 2)])
async def test_managers_of_ephemeral_containers(minor: int, managers: int) -> None:
    """Up to 1.32 a write of them leaves the pod's metadata as it is."""
    server = await open_server(minor)
    try:
        call = Caller(server)
        await call.post(f"{CORE}/serviceaccounts", {"metadata": {"name": "default"}})
        await call.post(f"{CORE}/pods", {"metadata": {"name": "x"}, "spec": {"containers": CONTAINERS}})
        debug = {"ephemeralContainers": [{"name": "debug", "image": "busybox"}]}
        answer = await call.patch(f"{CORE}/pods/x/ephemeralcontainers", {"spec": debug})
    finally:
        await close_server(server)
    assert len(answer.body["metadata"]["managedFields"]) == managers


async def test_a_default_of_another_format(call) -> None:
    """A format counts for the range of a number only if it is one of its type."""
    schema = {"type": "number", "format": "int32", "default": 1.5}
    names = {"plural": "numbers", "singular": "number", "kind": "Number", "listKind": "NumberList"}
    whole = {"type": "object", "properties": {"a": schema}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": whole}}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    answer = await call.post(DEFINITIONS, {"metadata": {"name": "numbers.example.com"}, "spec": spec})
    assert answer.status == 201


async def test_what_counts_for_a_generation(call) -> None:
    """An empty list is none, and what is written otherwise in a raw field is another value."""
    config = [{"opaque": {"driver": "d.example.com", "parameters": {"a": 1}}}]
    path = "/apis/resource.k8s.io/v1/deviceclasses"
    await call.post(path, {"metadata": {"name": "x"}, "spec": {"config": config}})
    await call.post(path, {"metadata": {"name": "y"}, "spec": {}})
    same = await call.put(f"{path}/y", {"metadata": {"name": "y"}, "spec": {"selectors": []}})
    assert same.body["metadata"]["generation"] == 1
    move = [{"op": "move", "path": "/spec/config", "from": "/spec/config"}]
    written = await call.patch(f"{path}/x", move, "json")
    assert written.body["metadata"]["generation"] == 2


DEPLOYMENTS = f"{APPS}/deployments"
POLICIES = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"


def deployment(pod: dict, **spec) -> dict:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINERS[0]], **pod}}
    return {
        "metadata": {"name": "x"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template, **spec},
    }


@pytest.mark.parametrize(
    ("path", "before", "after", "generation"),
    [
        (DEPLOYMENTS, deployment({}), deployment({"affinity": {}}), 2),
        (DEPLOYMENTS, deployment({}), deployment({"dnsConfig": {}}), 2),
        (DEPLOYMENTS, deployment({"affinity": {}}), deployment({}), 2),
        (DEPLOYMENTS, deployment({}), deployment({"securityContext": {}}), 1),  # which is a default
        (
            DEPLOYMENTS,
            deployment({}),
            deployment({"containers": [{**CONTAINERS[0], "securityContext": {}}]}),
            2,
        ),
        (DEPLOYMENTS, deployment({}), deployment({"containers": [{**CONTAINERS[0], "resources": {}}]}), 1),
        (DEPLOYMENTS, deployment({}), deployment({"nodeSelector": {}, "tolerations": []}), 1),
        (DEPLOYMENTS, deployment({}), deployment({}, strategy={}), 1),
        (
            POLICIES,
            {"metadata": {"name": "x"}, "spec": {"ingress": [{"from": [{"podSelector": {}}]}]}},
            {
                "metadata": {"name": "x"},
                "spec": {"ingress": [{"from": [{"podSelector": {}, "namespaceSelector": {}}]}]},
            },
            2,
        ),
    ],
)
async def test_empty_structs_in_a_generation(
    call, path: str, before: dict, after: dict, generation: int
) -> None:
    """An empty struct behind a pointer is another value than none; any other empty value is not."""
    assert (await call.post(path, before)).status == 201
    written = await call.put(f"{path}/x", after)
    assert written.body["metadata"]["generation"] == generation


async def test_amounts_that_conversion_adds(call) -> None:
    """A daemon set that does no rolling updates has 0 where one leaves an amount out."""
    strategy = {"type": "OnDelete", "rollingUpdate": {"maxUnavailable": "10%"}}
    selector = {"matchLabels": {"app": "web"}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": CONTAINERS}}
    spec = {"selector": selector, "template": template, "updateStrategy": strategy}
    made = await call.post(f"{APPS}/daemonsets", {"metadata": {"name": "on-delete"}, "spec": spec})
    rolling = made.body["spec"]["updateStrategy"]["rollingUpdate"]
    assert rolling == {"maxUnavailable": "10%", "maxSurge": 0}


async def test_source_across_namespaces_in_a_template(call) -> None:
    """A data source's namespace is checked where the gate is off, too: only claims lose such sources."""
    source = {"apiGroup": "x.example.com", "kind": "K", "name": "n", "namespace": "N"}
    claim = {"volumeClaimTemplate": {"spec": {**CLAIM, "dataSourceRef": source}}}
    spec = {"containers": CONTAINERS, "volumes": [{"name": "v", "ephemeral": claim}]}
    refused = await call.post(f"{CORE}/pods", {"metadata": {"name": "across"}, "spec": spec})
    places = [field for field, _ in causes(refused)]
    assert places == ["spec.volumes[0].ephemeral.volumeClaimTemplate.spec.dataSourceRef.namespace"]
