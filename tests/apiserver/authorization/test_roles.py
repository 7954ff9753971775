"""Roles and bindings decide; nobody grants more than they hold."""

import pytest
from server_in_process import ADMIN, Caller, close_server, open_server

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.authorization.default_roles import DefaultRoles
from kubeskew.apiserver.authorization.rbac import Rule
from kubeskew.apiserver.http.request import Peer, parse_info
from kubeskew.apiserver.serviceaccount import USER_PREFIX

GROUP = "rbac.authorization.k8s.io"
RBAC = f"/apis/{GROUP}/v1"
HERE = f"{RBAC}/namespaces/default"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
PODS = "/api/v1/namespaces/default/pods"


def role(name: str, *rules: dict, kind: str = "Role", **more) -> dict:
    return {
        "apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name}, "rules": list(rules), **more
    }  # fmt: skip


def rule(verbs: str, groups: str, resources: str, *names: str) -> dict:
    made = {"verbs": verbs.split(), "apiGroups": groups.split(","), "resources": resources.split()}
    return {**made, "resourceNames": list(names)} if names else made


def binding(name: str, to: str, *subjects: dict, kind: str = "RoleBinding") -> dict:
    what, _, role_name = to.partition("/")
    reference = {"apiGroup": GROUP, "kind": what, "name": role_name}
    return {
        "apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name},
        "roleRef": reference, "subjects": list(subjects),
    }  # fmt: skip


def user(name: str) -> dict:
    return {"kind": "User", "name": name, "apiGroup": GROUP}


@pytest.fixture
def eve(server) -> Caller:
    return Caller(server, Peer("eve", ("devs",)))


async def grant(api: Caller, *rules: dict, subject: dict | None = None) -> None:
    await api.post(f"{HERE}/roles", role("r", *rules))
    answer = await api.post(f"{HERE}/rolebindings", binding("b", "Role/r", subject or user("eve")))
    assert answer.status == 201


@pytest.mark.parametrize(
    ("given", "target", "allowed"),
    [
        (rule("get list", "", "pods"), "GET /api/v1/namespaces/n/pods/a", True),
        (rule("get", "", "pods"), "GET /api/v1/namespaces/n/pods", False),
        (rule("*", "", "pods"), "GET /api/v1/namespaces/n/pods/a/log", False),
        (rule("get", "", "pods/log"), "GET /api/v1/namespaces/n/pods/a/log", True),
        (rule("get", "*", "*/scale"), "GET /apis/apps/v1/namespaces/n/deployments/a/scale", True),
        (rule("get", "*", "*/scale"), "GET /apis/apps/v1/namespaces/n/deployments/a", False),
        (rule("get", "*", "*"), "GET /apis/apps/v1/namespaces/n/deployments/a/scale", True),
        (rule("get", "batch", "*"), "GET /apis/apps/v1/namespaces/n/deployments/a", False),
        (rule("get", "", "pods", "a"), "GET /api/v1/namespaces/n/pods/b", False),
        (
            rule("list", "", "pods", "a"),
            "GET /api/v1/namespaces/n/pods?fieldSelector=metadata.name%3Da",
            True,
        ),
        ({"verbs": ["get"], "nonResourceURLs": ["/logs/*"]}, "GET /logs/x/y", True),
        ({"verbs": ["get"], "nonResourceURLs": ["/logs"]}, "GET /logs/x", False),
        ({"verbs": ["get"], "nonResourceURLs": ["*"]}, "GET /api/v1/namespaces/n/pods/a", False),
    ],
)
def test_rules(given, target, allowed):
    """A rule allows verbs on resources of groups, subresources only if they are named, or on paths."""
    from urllib.parse import parse_qs

    method, _, whole = target.partition(" ")
    path, _, query = whole.partition("?")

    assert Rule.of(given).allows(parse_info(method, path, parse_qs(query))) is allowed


async def test_a_binding(api, eve):
    """A role's rules hold from the request after its binding on, and end with the binding."""
    assert (await eve.get(PODS)).status == 403
    await grant(api, rule("get list", "", "pods"), rule("get", "", "secrets", "mine"))

    assert (await eve.get(PODS)).status == 200
    assert (await eve.get("/api/v1/namespaces/default/secrets/mine")).status == 404
    refused = await eve.get("/api/v1/namespaces/default/secrets/other")
    assert refused.body["message"] == (
        'secrets "other" is forbidden: User "eve" cannot get resource "secrets" in API group "" '
        'in the namespace "default"'
    )
    assert (await eve.get("/api/v1/namespaces/kube-system/pods")).status == 403
    await api.delete(f"{HERE}/rolebindings/b")
    assert (await eve.get(PODS)).status == 403


@pytest.mark.parametrize(
    ("subject", "shown", "who"),
    [
        (user("eve"), 'User "eve"', {"user": "eve"}),
        (
            {"kind": "Group", "name": "devs", "apiGroup": GROUP},
            'Group "devs"',
            {"user": "x", "groups": ["devs"]},
        ),
        (
            {"kind": "ServiceAccount", "name": "bot"},
            'ServiceAccount "bot/default"',
            {"user": "system:serviceaccount:default:bot"},
        ),
    ],
)  # fmt: skip
async def test_reasons(api, subject, shown, who):
    """A review says which binding of which role to whom allows it."""
    await grant(api, rule("list", "", "pods"), subject=subject)
    attributes = {"verb": "list", "resource": "pods", "namespace": "default"}
    review = {
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {**who, "resourceAttributes": attributes},
    }  # fmt: skip

    status = (await api.post(REVIEWS, review)).body["status"]

    assert status["reason"] == f'RBAC: allowed by RoleBinding "b/default" of Role "r" to {shown}'


async def test_a_missing_role(api, eve):
    """A binding to a role that is not there allows nothing, and the refusal says so."""
    await api.post(f"{RBAC}/clusterrolebindings", binding(
        "b", "ClusterRole/gone", user("eve"), kind="ClusterRoleBinding"
    ))  # fmt: skip
    message = (await eve.get("/api/v1/nodes")).body["message"]

    assert message.endswith(f'at the cluster scope: RBAC: clusterrole.{GROUP} "gone" not found')


async def test_escalation(api, eve):
    """A user who writes roles grants only rights that the user holds, unless allowed to escalate or bind."""
    manage = rule("get create update", GROUP, "roles rolebindings")
    await grant(api, manage, rule("get list", "", "pods"))
    wanted = role("more", rule("list delete", "", "pods"), rule("get", "apps", "deployments"))
    refused = await eve.post(f"{HERE}/roles", wanted)

    assert refused.status == 403
    assert refused.body["message"] == (
        f'roles.{GROUP} "more" is forbidden: user "eve" (groups=["devs" "system:authenticated"]) is '
        "attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}\n'
        '{APIGroups:["apps"], Resources:["deployments"], Verbs:["get"]}'
    )
    assert (await eve.post(f"{HERE}/roles", role("less", rule("list", "", "pods")))).status == 201
    to_admin = binding("up", "ClusterRole/cluster-admin", user("eve"))
    assert "not currently held" in (await eve.post(f"{HERE}/rolebindings", to_admin)).body["message"]
    assert (await eve.post(f"{HERE}/rolebindings", binding("up", "Role/none", user("eve")))).status == 404
    bind = role("r", manage, rule("bind", GROUP, "clusterroles", "cluster-admin"))
    assert (await api.put(f"{HERE}/roles/r", bind)).status == 200
    assert (await eve.post(f"{HERE}/rolebindings", to_admin)).status == 201


async def test_creating_takes_the_right_to_create(api, eve):
    """A user who may only patch and update cannot create an object by an apply or a PUT."""
    await grant(api, rule("patch update", ",coordination.k8s.io", "configmaps leases"))
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}
    target = "/api/v1/namespaces/default/configmaps/c?fieldManager=m"
    cannot = 'is forbidden: User "eve" cannot create resource'

    applied = await eve.patch(target, config, "apply")
    put = await eve.put("/apis/coordination.k8s.io/v1/namespaces/default/leases/l", lease)

    where = 'in API group "" in the namespace "default"'
    assert (applied.status, put.status) == (403, 403)
    assert applied.body["message"] == f'configmaps "c" {cannot} "configmaps" {where}'
    assert (await api.patch(target, config, "apply")).status == 201
    assert (await eve.patch(target, {**config, "data": {"a": "b"}}, "apply")).status == 200


async def test_aggregating_is_for_administrators(api, eve):
    """An aggregation rule may gather anything, so it takes every right to set one."""
    manage = role("m", rule("create", GROUP, "clusterroles"), kind="ClusterRole")
    await api.post(f"{RBAC}/clusterroles", manage)
    to_eve = binding("b", "ClusterRole/m", user("eve"), kind="ClusterRoleBinding")
    await api.post(f"{RBAC}/clusterrolebindings", to_eve)
    selectors = [{"matchLabels": {"a": "b"}}]
    made = role("g", kind="ClusterRole", aggregationRule={"clusterRoleSelectors": selectors})
    refused = await eve.post(f"{RBAC}/clusterroles", made)

    assert refused.status == 403
    assert refused.body["message"].endswith("must have cluster-admin privileges to use the aggregationRule")


async def test_validation(api):
    """Rules and bindings are checked in upstream's order and words; a binding stays with its role."""
    url = {"verbs": [], "nonResourceURLs": ["/x"], "resources": ["pods"]}
    wrong = await api.post(f"{HERE}/roles", role("r", url, {"verbs": ["get"]}))
    assert [(cause["field"], cause["message"]) for cause in wrong.body["details"]["causes"]] == [
        ("rules[0].verbs", "Required value: verbs must contain at least one value"),
        (
            "rules[0].nonResourceURLs",
            'Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs',
        ),
        (
            "rules[0].nonResourceURLs",
            'Invalid value: ["/x"]: rules cannot apply to both regular resources and non-resource URLs',
        ),
        ("rules[1].apiGroups", "Required value: resource rules must supply at least one api group"),
        ("rules[1].resources", "Required value: resource rules must supply at least one resource"),
    ]  # fmt: skip
    await grant(api, rule("get", "", "pods"))
    moved = await api.put(f"{HERE}/rolebindings/b", binding("b", "Role/other", user("eve")))
    assert moved.status == 422
    shown = f'{{"APIGroup":"{GROUP}","Kind":"Role","Name":"other"}}'
    assert moved.body["message"].endswith(f"roleRef: Invalid value: {shown}: cannot change roleRef")
    account = {"kind": "ServiceAccount", "name": "a"}
    cluster = binding("c", "Role/r", account, {"kind": "Robot", "name": ""}, kind="ClusterRoleBinding")
    found = (await api.post(f"{RBAC}/clusterrolebindings", cluster)).body["details"]["causes"]
    assert [one["field"] for one in found] == [
        "roleRef.kind", "subjects[0].namespace", "subjects[1].name", "subjects[1].kind",
    ]  # fmt: skip


async def test_default_roles(server, api):
    """A fresh server has upstream's roles, marked as its own; gates and version decide about some."""
    roles = {obj["metadata"]["name"]: obj for obj in (await api.get(f"{RBAC}/clusterroles")).body["items"]}

    assert roles["cluster-admin"]["rules"][0]["verbs"] == ["*"]
    assert roles["cluster-admin"]["metadata"]["labels"] == {"kubernetes.io/bootstrapping": "rbac-defaults"}
    assert "system:controller:selinux-warning-controller" in roles
    assert "system:cluster-trust-bundle-discovery" not in roles
    old = DefaultRoles(FeatureGates(Version(28)))
    assert "system:controller:selinux-warning-controller" not in {
        role["metadata"]["name"] for role in old.cluster_roles()
    }


async def test_roles_are_put_right(tmp_path):
    """At its start a server adds what a default role lacks, keeps what somebody added, and obeys `false`."""
    url = f"sqlite+aiosqlite:///{tmp_path}/log.db"
    server = await open_server(url=url)
    api = Caller(server, ADMIN)
    basic, view = f"{RBAC}/clusterroles/system:basic-user", f"{RBAC}/clusterroles/system:discovery"
    more = rule("get", "", "more")
    await api.patch(basic, {"rules": [more]})
    annotations = {"rbac.authorization.kubernetes.io/autoupdate": "false"}
    await api.patch(view, {"metadata": {"annotations": annotations}, "rules": [more]})
    lost = f"{RBAC}/clusterrolebindings/system:discovery"
    await api.delete(lost)
    await close_server(server)
    server = await open_server(url=url)
    try:
        api = Caller(server, ADMIN)
        rules = (await api.get(basic)).body["rules"]
        assert rules[0] == more
        assert ["selfsubjectreviews"] in [one["resources"] for one in rules]
        assert (await api.get(view)).body["rules"] == [more]
        assert (await api.get(lost)).status == 200
    finally:
        await close_server(server)


async def test_parts_of_a_claim_status(api, eve, server):
    """From 1.36 on the allocation takes a right of its own, and so does each driver's status of devices."""
    group, claims = "resource.k8s.io", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    status = rule("get update", group, "resourceclaims resourceclaims/status")
    await grant(api, status)
    request = {"name": "r", "exactly": {"deviceClassName": "c"}}
    about = {"apiVersion": f"{group}/v1", "kind": "ResourceClaim", "metadata": {"name": "a"}}
    claim = (await api.post(claims, {**about, "spec": {"devices": {"requests": [request]}}})).body
    device = {"driver": "d.example.com", "pool": "p", "device": "x"}
    allocation = {"devices": {"results": [{"request": "r", **device}]}}
    allocated = {**claim, "status": {"allocation": allocation}}
    refused = await eve.put(f"{claims}/a/status", allocated)

    assert refused.status == 422
    assert refused.body["details"]["causes"] == [
        {
            "reason": "FieldValueForbidden",
            "field": "status",
            "message": (
                "Forbidden: changing status.allocation or status.reservedFor requires "
                'resource="resourceclaims/binding", verb="update" permission: resourceclaims.resource.k8s.io '
                'is forbidden: User "eve" cannot update resource "resourceclaims/binding" in API group '
                '"resource.k8s.io" at the cluster scope'
            ),
        }
    ]
    allocated = (await api.put(f"{claims}/a/status", allocated)).body
    reported = {**allocated, "status": {**allocated["status"], "devices": [device]}}
    refused = await eve.put(f"{claims}/a/status", reported)
    assert 'resource="resourceclaims/driver", verb="[arbitrary-node:update]"' in refused.body["message"]
    more = rule("arbitrary-node:update", group, "resourceclaims/driver", "d.example.com")
    await api.put(f"{HERE}/roles/r", role("r", status, more))
    reported = await eve.put(f"{claims}/a/status", reported)
    assert reported.status == 200
    # what is reported of a device goes with the device, whoever takes it away
    controller = Caller(server, Peer(f"{USER_PREFIX}kube-system:resource-claim-controller", ()))
    freed = await controller.put(f"{claims}/a/status", {**reported.body, "status": {"devices": [device]}})
    assert freed.body["status"] == {}
