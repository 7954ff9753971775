"""Answers of a real kube-apiserver 1.36.3 that random histories found ours to differ in."""

import pytest
from server_in_process import Caller, close_server, open_server

pytestmark = pytest.mark.asyncio(loop_scope="module")

CORE, APPS, STORAGE = (
    "/api/v1/namespaces/default",
    "/apis/apps/v1/namespaces/default",
    "/apis/storage.k8s.io/v1",
)
DRIVERS, ATTACHMENTS = f"{STORAGE}/csidrivers", f"{STORAGE}/volumeattachments"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
SCALERS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
POOL = {"name": "p", "resourceSliceCount": 1}
CONTAINERS = [{"name": "main", "image": "busybox"}]
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": CONTAINERS}}
UNLABELLED = {"metadata": {"labels": {}}, "spec": {"containers": CONTAINERS}}
SELECTOR = {"matchLabels": {"app": "web"}}


def causes(answer) -> list[tuple[str, str]]:
    found = answer.body.get("details", {}).get("causes", ())
    return [(cause["field"], cause["message"]) for cause in found]


REFUSED = [
    (  # Only a Service without addresses can come of the status of one that there is not.
        f"{CORE}/services/b/status",
        {"metadata": {"name": "b"}, "spec": {"clusterIP": "None", "ports": [{"port": 1}]}},
        [("spec.clusterIPs", "Required value")],
    ),
    (
        "/apis/networking.k8s.io/v1/ipaddresses",
        {
            "metadata": {"generateName": "10.96.1.2-"},
            "spec": {"parentRef": {"resource": "services", "name": "x"}},
        },
        [
            (
                f"metadata.{name}",
                'Invalid value: "10.96.1.2-": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
            )
            for name in ("generateName", "name")
        ],
    ),
    (
        DRIVERS,
        {"metadata": {"name": "x"}, "spec": {"serviceAccountTokenInSecrets": False}},
        [
            (
                "spec.serviceAccountTokenInSecrets",
                (
                    "Invalid value: false: serviceAccountTokenInSecrets is set but no tokenRequests are "
                    "specified"
                ),
            )
        ],
    ),
    (
        ATTACHMENTS,
        {"metadata": {"name": "x"}, "spec": {"nodeName": "n", "source": {"persistentVolumeName": "p"}}},
        [("spec.attacher", "Required value")],
    ),
    (
        f"{STORAGE}/csinodes",
        {"metadata": {"name": "x"}, "spec": {"drivers": [{"name": "", "nodeID": "n"}]}},
        [("spec.drivers[0].name", "Required value")],
    ),
    (  # An empty list is one.
        SLICES,
        {
            "metadata": {"name": "x"},
            "spec": {"driver": "d", "nodeName": "n", "pool": POOL, "sharedCounters": [], "devices": []},
        },
        [("spec", 'Invalid value: "": only one of `sharedCounters` or `devices` is allowed')],
    ),
    (
        SCALERS,
        {
            "metadata": {"name": "x"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
                "maxReplicas": 2,
                "behavior": {"scaleDown": {"policies": []}},
            },
        },
        [("spec.behavior.scaleDown.policies", "Required value: must specify at least one Policy")],
    ),
    (  # A toleration's seconds do not make it another one.
        "/apis/node.k8s.io/v1/runtimeclasses",
        {
            "metadata": {"name": "x"},
            "handler": "h",
            "scheduling": {
                "tolerations": [
                    {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
                    {"key": "k", "operator": "Exists", "effect": "NoExecute"},
                ]
            },
        },
        [
            (
                "scheduling.tolerations[1]",
                (
                    'Duplicate value: {"Key":"k","Operator":"Exists","Value":"","Effect":"NoExecute",'
                    '"TolerationSeconds":null}'
                ),
            )
        ],
    ),
    (
        SCALERS,
        {
            "metadata": {"name": "x"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
                "maxReplicas": 2,
                "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "a > b"}}}],
            },
        },
        [
            (
                "spec.metrics[0].resource.target.type",
                'Invalid value: "a \\u003e b": must be either Utilization, Value, or AverageValue',
            ),
            (
                "spec.metrics[0].resource.target.averageUtilization",
                ("Required value: must set either a target raw value or a target utilization"),
            ),
        ],
    ),
    (
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
        {
            "metadata": {"name": "x"},
            "spec": {
                "matchConstraints": {
                    "resourceRules": [
                        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["*"]}
                    ]
                },
                "validations": [{"expression": "'a'.find('[') == ''"}, {"expression": "true &&\ntrue"}],
            },
        },
        [
            (
                "spec.validations[0].expression",
                (
                    "Internal error: program instantiation failed: error parsing regexp: "
                    "missing closing ]: `[`"
                ),
            )
        ],
    ),
    (
        f"{APPS}/deployments",
        {"metadata": {"name": "x"}, "spec": {"selector": SELECTOR, "template": UNLABELLED}},
        [("spec.template.metadata.labels", "Invalid value: {}: `selector` does not match template `labels`")],
    ),
    (
        "/api/v1/nodes",
        {"metadata": {"name": "x"}, "spec": {"podCIDRs": ["10.9.0.0/24", "x"]}},
        [
            (
                "spec.podCIDRs",
                (
                    "Internal error: invalid PodCIDRs. failed to check with dual stack with error:"
                    "invalid CIDR[1]: <nil> (invalid CIDR address: x)"
                ),
            )
        ],
    ),
]


@pytest.mark.parametrize(
    ("path", "body", "expected"), REFUSED, ids=lambda value: value if isinstance(value, str) else ""
)
async def test_what_is_refused(call, path: str, body: dict, expected: list) -> None:
    """The causes are upstream's, none more of the same field."""
    answer = await (call.put if path.endswith("/status") else call.post)(path, body)
    assert answer.status == 422
    fields = {field for field, _ in expected}
    found = [cause for cause in causes(answer) if cause[0] in fields]
    assert [cause for cause in found if cause in expected] == expected
    assert len(found) == len(expected) or fields == {"spec.podCIDRs"}


@pytest.mark.parametrize(
    ("plural", "body", "path", "expected"),
    [
        (
            "persistentvolumeclaims",
            {"spec": CLAIM | {"resources": {"requests": {"storage": "1n"}}}},
            ("spec", "resources", "requests"),
            {"storage": "1m"},
        ),
        (
            "limitranges",
            {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "1u"}}]}},
            ("spec", "limits"),
            [{"type": "Pod", "max": {"cpu": "1m"}}],
        ),
    ],
)
async def test_amounts_are_rounded_up(call, plural: str, body: dict, path: tuple, expected: object) -> None:
    """Nothing finer than a thousandth is stored of any list of resources."""
    found = (await call.post(f"{CORE}/{plural}?dryRun=All", {"metadata": {"name": "x"}, **body})).body
    for name in path:
        found = found[name]
    assert found == expected


async def test_a_service_made_by_its_status(call) -> None:
    """A PUT of the status of a Service that there is not creates it, and allocates nothing."""
    answer = await call.put(
        f"{CORE}/services/a/status", {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}}
    )
    assert answer.status == 201
    assert "clusterIP" not in answer.body["spec"]
    gone = await call.put(f"{APPS}/deployments/a/status", {"metadata": {"name": "a"}})
    assert gone.status == 404


async def test_generations(call) -> None:
    """A CSIDriver has none until it changes; what a change of a slice loses to a gate counts all the same."""
    driver = await call.post(DRIVERS, {"metadata": {"name": "x"}, "spec": {}})
    assert "generation" not in driver.body["metadata"]
    changed = await call.patch(
        f"{DRIVERS}/x", {"spec": {"podInfoOnMount": True, "preventPodSchedulingIfMissing": False}}
    )
    assert changed.body["metadata"]["generation"] == 1
    endpoints = [{"addresses": ["10.1.2.3"]}]
    path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    await call.post(path, {"metadata": {"name": "x"}, "addressType": "IPv4", "endpoints": endpoints})
    labelled = [{**endpoints[0], "deprecatedTopology": {"a": "b"}}]
    changed = await call.patch(f"{path}/x", {"endpoints": labelled})
    assert changed.body["metadata"]["generation"] == 2
    assert changed.body["endpoints"] == [{**endpoints[0], "conditions": {}}]


@pytest.mark.parametrize("minor", [35, 36])
async def test_a_gate_older_than_its_field(minor: int) -> None:
    """1.35 has the gate VolumeLimitScaling, for its scheduler alone: CSIDrivers have no field for it."""
    server = await open_server(minor, gates={"VolumeLimitScaling": True})
    try:
        driver = await Caller(server).post(DRIVERS, {"metadata": {"name": "x"}, "spec": {}})
    finally:
        await close_server(server)
    assert ("preventPodSchedulingIfMissing" in driver.body["spec"]) == (minor == 36)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"orphanDependents": True}, ["orphan"]),
        ({"orphanDependents": False}, ["foregroundDeletion"]),
        ({"propagationPolicy": "Foreground"}, ["foregroundDeletion"]),
        ({"propagationPolicy": "Background"}, None),
        ({}, None),
    ],
)
async def test_finalizers_of_a_namespace(call, options: dict, expected: list | None) -> None:
    """The storage of namespaces reads the policy in its own way."""
    name = "-".join(["gone", *map(str.lower, map(str, options.values()))])
    await call.post("/api/v1/namespaces", {"metadata": {"name": name}})
    marked = await call.delete(f"/api/v1/namespaces/{name}", options)
    assert marked.body["metadata"].get("finalizers") == expected


async def test_events_orphan_nothing(call) -> None:
    """An event is gone at once, whatever the policy: garbage collection does not support events."""
    event = {
        "metadata": {"name": "x"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
    }
    await call.post(f"{CORE}/events", event)
    answer = await call.delete(f"{CORE}/events/x", {"propagationPolicy": "Foreground"})
    assert (answer.body["kind"], answer.body["status"]) == ("Status", "Success")


async def test_the_generation_of_a_template_outlives_its_status(call) -> None:
    """It is part of the internal spec of a DaemonSet, which a write of the status leaves alone."""
    body = {"metadata": {"name": "x"}, "spec": {"selector": SELECTOR, "template": TEMPLATE}}
    await call.post(f"{APPS}/daemonsets", body)
    answer = await call.put(f"{APPS}/daemonsets/x/status", {**body, "status": {}})
    assert answer.body["metadata"]["annotations"] == {"deprecated.daemonset.template.generation": "1"}


async def test_dry_runs(call) -> None:
    """The answer has nothing that a controller adds, and what the store would drop."""
    level = {"matchingPrecedence": 9, "priorityLevelConfiguration": {"name": "none"}}
    path = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
    made = await call.post(f"{path}?dryRun=All", {"metadata": {"name": "x"}, "spec": level})
    assert (made.body["status"], causes(made)) == ({}, [])
    role = {"metadata": {"name": "x", "resourceVersion": "7"}, "rules": []}
    made = await call.put("/apis/rbac.authorization.k8s.io/v1/clusterroles/x?dryRun=All", role)
    assert made.body["metadata"]["resourceVersion"] == "7"


@pytest.mark.parametrize(
    ("spec", "status", "message"),
    [
        (
            {"serviceAccountName": "a/b"},
            403,
            (
                'pods "x" is forbidden: error looking up service account default/a/b: '
                "invalid resource name \"a/b\": [may not contain '/']"
            ),
        ),
        ({"runtimeClassName": "5%"}, 500, "invalid resource name \"5%\": [may not contain '%']"),
        (
            {"overhead": {}},
            403,
            (
                'pods "x" is forbidden: pod rejected: Pod Overhead set without corresponding '
                "RuntimeClass defined Overhead"
            ),
        ),
    ],
)
async def test_pods_that_admission_refuses(call, spec: dict, status: int, message: str) -> None:
    """Names that no client can ask for are refused in the client's words; an empty overhead is one."""
    await call.post(f"{CORE}/serviceaccounts", {"metadata": {"name": "default"}})
    pod = {"metadata": {"name": "x"}, "spec": {"containers": CONTAINERS, **spec}}
    answer = await call.post(f"{CORE}/pods", pod)
    assert (answer.status, answer.body["message"]) == (status, message)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (
            {"fieldSelector": {"rawSelector": "1.2.3.4"}},
            "spec.resourceAttributes.fieldSelector ignored due to parse error",
        ),
        (
            {
                "fieldSelector": {
                    "requirements": [
                        {"key": "a", "operator": "In", "values": ["b"]},
                        {"key": "a", "operator": "Exists"},
                    ]
                }
            },
            "spec.resourceAttributes.fieldSelector partially ignored due to parse error",
        ),
        (
            {
                "labelSelector": {"requirements": [{"key": "a", "operator": "Equal"}]},
                "fieldSelector": {"rawSelector": "a"},
            },
            (
                "spec.resourceAttributes.fieldSelector ignored due to parse error; "
                "spec.resourceAttributes.labelSelector ignored due to parse error"
            ),
        ),
        ({"labelSelector": {"rawSelector": "a in (b)"}}, None),
    ],
)
async def test_selectors_of_reviews(call, asked: dict, expected: str | None) -> None:
    """A review says which of its selectors was not looked at."""
    spec = {"user": "u", "resourceAttributes": {"verb": "get", "resource": "pods", **asked}}
    answer = await call.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
    assert (answer.status, answer.body["status"].get("evaluationError")) == (201, expected)


async def test_reviews_without_their_gate() -> None:
    """Before 1.32 reviews have no selectors: those that a client sends are lost."""
    server = await open_server(31)
    try:
        asked = {"verb": "get", "resource": "pods", "fieldSelector": {"rawSelector": "1.2.3.4"}}
        body = {"spec": {"user": "u", "resourceAttributes": asked}}
        answer = await Caller(server).post("/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
        assert "evaluationError" not in answer.body["status"]
        assert "fieldSelector" not in answer.body["spec"]["resourceAttributes"]
    finally:
        await close_server(server)
