"""A kubelet may read and write only what is on its node."""

import pytest
from server_in_process import Caller, close_server, open_server

from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.http.request import Peer

PODS = "/api/v1/namespaces/default/pods"
SECRETS = "/api/v1/namespaces/default/secrets"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


@pytest.fixture
def kubelet(server) -> Caller:
    return Caller(server, Peer("system:node:n1", ("system:nodes",)))


def pod(name: str, node: str = "n1", **spec) -> dict:
    container = {"name": "c", "image": "i", "envFrom": [{"configMapRef": {"name": "settings"}}]}
    volumes = [
        {"name": "s", "secret": {"secretName": "password"}},
        {"name": "v", "persistentVolumeClaim": {"claimName": "data"}},
    ]
    whole = {"nodeName": node, "containers": [container], "volumes": volumes, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": whole}


async def test_what_pods_need(api, kubelet):
    """Secrets, config maps and claims are readable while a pod on the node needs them."""
    what = f"{SECRETS}/password"
    refused = await kubelet.get(what)
    assert refused.body["message"] == (
        'secrets "password" is forbidden: User "system:node:n1" cannot get resource "secrets" in API '
        'group "" in the namespace "default": no relationship found between node \'n1\' and this object'
    )
    assert (await api.post(PODS, pod("a"))).status == 201
    assert (
        await api.post(PODS, pod("b", "n2", volumes=[{"name": "s", "secret": {"secretName": "x"}}]))
    ).status == 201

    assert (await kubelet.get(what)).status == 404  # allowed; there is none
    assert (await kubelet.get("/api/v1/namespaces/default/configmaps/settings")).status == 404
    assert (await kubelet.get("/api/v1/namespaces/default/persistentvolumeclaims/data")).status == 404
    assert (await kubelet.get(f"{SECRETS}/x")).status == 403
    assert (await kubelet.get(SECRETS)).status == 403
    volume = {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": "default", "name": "data"}, "hostPath": {"path": "/x"},
        },
    }  # fmt: skip
    await api.post("/api/v1/persistentvolumes", volume)
    assert (await kubelet.get("/api/v1/persistentvolumes/pv")).status == 200
    await api.delete(f"{PODS}/a?gracePeriodSeconds=0")
    assert (await kubelet.get(what)).status == 403
    assert (await kubelet.get("/api/v1/persistentvolumes/pv")).status == 403


async def test_pods_and_nodes(api, kubelet):
    """A kubelet lists the pods of its node, reads its own Node, and writes neither of others."""
    await api.post(PODS, pod("a"))
    await api.post(PODS, pod("b", "n2"))

    assert (await kubelet.get("/api/v1/pods?fieldSelector=spec.nodeName%3Dn1")).status == 200
    every = await kubelet.get("/api/v1/pods")
    assert every.body["message"].endswith("can only list/watch pods with spec.nodeName field selector")
    assert (await kubelet.get(f"{PODS}/a")).status == 200
    assert (await kubelet.get(f"{PODS}/b")).status == 403
    other = await kubelet.patch(f"{PODS}/b/status", {"status": {"message": "m"}})
    assert other.body["message"] == (
        'pods "b" is forbidden: node "n1" can only update pod status for pods with spec.nodeName set '
        "to itself"
    )
    assert (await kubelet.delete(f"{PODS}/b")).body["message"] == (
        'pods "b" is forbidden: node "n1" can only delete pods with spec.nodeName set to itself'
    )
    assert (await kubelet.patch(f"{PODS}/a/status", {"status": {"message": "m"}})).status == 200
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    forbidden = {**node, "metadata": {"name": "n1", "labels": {"node-restriction.kubernetes.io/a": "b"}}}
    assert (await kubelet.post("/api/v1/nodes", forbidden)).body["message"] == (
        'nodes "n1" is forbidden: node "n1" is not allowed to set the following labels: '
        "node-restriction.kubernetes.io/a"
    )
    assert (await kubelet.post("/api/v1/nodes", node)).status == 201
    assert (await kubelet.post("/api/v1/nodes", {**node, "metadata": {"name": "n2"}})).status == 403
    tainted = {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}
    assert (await kubelet.patch("/api/v1/nodes/n1", tainted)).body["message"] == (
        'nodes "n1" is forbidden: node "n1" is not allowed to modify taints'
    )
    assert (await kubelet.get("/api/v1/nodes/n1")).status == 200
    assert (await kubelet.get("/api/v1/nodes/n2")).status == 403


async def test_mirror_pods(kubelet):
    """A kubelet makes pods that mirror its own, and no others."""
    plain = {"name": "m", "ownerReferences": []}
    made = {**pod("m", volumes=[]), "metadata": plain}
    refused = await kubelet.post(PODS, made)

    assert refused.body["message"] == (
        'pods "m" is forbidden: pod does not have "kubernetes.io/config.mirror" annotation, '
        'node "n1" can only create mirror pods'
    )
    made["metadata"] = {**plain, "annotations": {"kubernetes.io/config.mirror": "x"}}
    refused = await kubelet.post(PODS, made)
    assert refused.body["message"].endswith(
        'node "n1" can only create pods with an owner reference set to itself'
    )


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        ({"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}, "resourceclaims"),
        ({"volumes": [{"name": "v", "csi": {"driver": "d.example.com"}}]}, "csidrivers (via CSI volumes)"),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, "persistentvolumeclaims"),
    ],
)
async def test_mirror_pods_refer_to_no_objects(api, kubelet, spec, what):
    """Volumes of all kinds are looked at, and named as from 1.34 on."""
    await api.delete("/api/v1/nodes/n1")
    uid = (await api.post("/api/v1/nodes", {"metadata": {"name": "n1"}})).body["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid, "controller": True}
    about = {"name": "m", "annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": [owner]}
    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}], **spec}
    refused = await kubelet.post(PODS, {"metadata": about, "spec": spec})

    assert refused.body["message"].endswith(f'node "n1" can not create pods that reference {what}')


async def test_slices_and_leases(api, kubelet):
    """Slices and the lease of the node are its own, those of others are not."""

    def slice_of(node: str) -> dict:
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "d.example.com", "nodeName": node, "pool": pool, "devices": []}
        about = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}
        return {**about, "metadata": {"name": node}, "spec": spec}

    assert (await api.post(SLICES, slice_of("n2"))).status == 201
    assert (await kubelet.post(SLICES, slice_of("n1"))).status == 201
    assert (
        (await kubelet.post(SLICES, slice_of("n3")))
        .body["message"]
        .endswith("can only create ResourceSlice with the same NodeName as the requesting node")
    )
    assert (await kubelet.get(f"{SLICES}?fieldSelector=spec.nodeName%3Dn1")).status == 200
    assert (await kubelet.get(SLICES)).status == 403
    assert (await kubelet.delete(f"{SLICES}/n2")).status == 403
    assert (await kubelet.delete(f"{SLICES}/n1")).status == 200
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "n1"}, "spec": {}}
    assert (await kubelet.post(leases, lease)).status == 201
    other = await kubelet.post(leases, {**lease, "metadata": {"name": "n2"}})
    why = "can only access node lease with the same name as the requesting node"
    assert (other.status, other.body["message"]) == (
        403,
        f'leases.coordination.k8s.io "n2" is forbidden: {why}',
    )
    assert why in (await kubelet.get(f"{leases}/n2")).body["message"]


async def test_rules_of_a_node(kubelet):
    """A review of a node's rules says that it is incomplete, as the node authorizer cannot list them."""
    review = {
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": "default"},
    }  # fmt: skip
    answer = await kubelet.post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", review)

    assert answer.body["status"]["incomplete"] is True
    why = "node authorizer does not support user rule resolution"
    assert answer.body["status"]["evaluationError"] == why


async def test_tokens_of_pods(api, kubelet):
    """A kubelet gets tokens of its pods' accounts, bound to the pods, for whom their volumes name."""
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "bot"}}
    await api.post(accounts, account)
    sources = [{"serviceAccountToken": {"path": "t", "audience": "vault"}}]
    volumes = [{"name": "t", "projected": {"sources": sources}}]
    made = await api.post(PODS, pod("a", serviceAccountName="bot", volumes=volumes))
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": made.body["metadata"]["uid"]}

    async def ask(**spec) -> tuple[int, str]:
        about = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        answer = await kubelet.post(f"{accounts}/bot/token", {**about, "spec": spec})
        return answer.status, answer.body.get("message", "")

    assert (await ask(boundObjectRef=reference, audiences=["vault"]))[0] == 201
    status, message = await ask(audiences=["vault"])
    assert (status, message) == (
        403,
        'serviceaccounts "bot" is forbidden: node requested token not bound to a pod',
    )
    status, message = await ask(boundObjectRef=reference, audiences=["bank"])
    assert message.endswith(
        'audience "bank" not found in pod spec volume, system:node:n1 is not authorized to request tokens '
        "for this audience"
    )
    assert (await ask(boundObjectRef={**reference, "uid": "other"}, audiences=["vault"]))[0] == 403


@pytest.mark.parametrize(
    ("volumes", "trouble"),
    [
        ({"csi": {"driver": "d"}}, 'csidriver.storage.k8s.io "d" not found'),
        ({"persistentVolumeClaim": {"claimName": "gone"}}, 'persistentvolumeclaim "gone" not found'),
        (
            {"ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}, "csi": {"driver": "d"}},
            '[persistentvolumeclaim "a-v0" not found, csidriver.storage.k8s.io "d" not found]',
        ),
    ],
    ids=["driver", "claim", "both"],
)
async def test_tokens_of_pods_whose_drivers_are_not_known(api, kubelet, volumes, trouble):
    """Up to 1.37 the way to a volume's driver has to be there, or the audience to be named (140607)."""
    named = [{"name": f"v{n}", name: source} for n, (name, source) in enumerate(volumes.items())]
    projected = {"sources": [{"serviceAccountToken": {"path": "t", "audience": "vault"}}]}
    made = await api.post(PODS, pod("a", volumes=[*named, {"name": "t", "projected": projected}]))
    assert made.status == 201, made.body
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": made.body["metadata"]["uid"]}
    about = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"

    spec = {"boundObjectRef": reference, "audiences": ["vault"]}
    assert (await kubelet.post(path, {**about, "spec": spec})).status == 201
    answer = await kubelet.post(path, {**about, "spec": {**spec, "audiences": ["bank"]}})

    assert answer.status == 403
    assert answer.body["message"].endswith(f'error validating audience "bank": {trouble}')


@pytest.mark.parametrize(
    ("minor", "text"),
    [(32, ""), (33, ", system:node:n1 is not authorized to request tokens for this audience")],
)
async def test_other_audiences_may_be_permitted_from_1_33_on(minor, text):
    """The refusal says nothing of audiences where a release does not ask whether a node may request one."""
    server = await open_server(minor, gates={"ServiceAccountNodeAudienceRestriction": True})
    api, kubelet = Caller(server), Caller(server, Peer("system:node:n1", ("system:nodes",)))
    made = await api.post(PODS, pod("a", volumes=[]))
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": made.body["metadata"]["uid"]}
    spec = {"boundObjectRef": reference, "audiences": ["bank"]}
    about = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}

    answer = await kubelet.post("/api/v1/namespaces/default/serviceaccounts/default/token", about)
    await close_server(server)
    assert answer.body["message"].endswith(f'audience "bank" not found in pod spec volume{text}')


CLAIM_GATE = "DynamicResourceAllocation"


@pytest.mark.parametrize("minor", [27, 28])
async def test_claims_of_pods(minor):
    """Since 1.28 a kubelet gets the claims of its pods only, by name or by status; before, any claim."""
    served = {"resource.k8s.io/v1alpha2": True}
    server = await open_server(minor, gates={CLAIM_GATE: True}, runtime_config=served)
    api, kubelet = Caller(server), Caller(server, Peer("system:node:n1", ("system:nodes",)))
    claims = "/apis/resource.k8s.io/v1alpha2/namespaces/default/resourceclaims"
    entries = [
        {"name": "a", "source": {"resourceClaimName": "shared"}},
        {"name": "b", "source": {"resourceClaimTemplateName": "t"}},
    ]
    assert (await api.post(PODS, pod("p", volumes=[], resourceClaims=entries))).status == 201
    named = {"status": {"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "p-b-x1"}]}}
    assert (await api.patch(f"{PODS}/p/status", named)).status == 200

    found = {name: (await kubelet.get(f"{claims}/{name}")).status for name in ("shared", "p-b-x1", "other")}
    listed = await kubelet.get(claims)

    assert found == {"shared": 404, "p-b-x1": 404, "other": 403 if minor == 28 else 404}
    assert listed.status == 403
    assert ("can only get individual resources of this type" in listed.body["message"]) is (minor == 28)
    await close_server(server)


SEMANTIC = Version(29, "kep4381")
NAMED = {"namedResources": {"instances": [{"name": "a"}]}}
COUNTED = {"resources": [{"id": "a", "attributes": [{"name": "n", "counter": {"count": 1}}]}]}


@pytest.mark.parametrize(
    ("release", "kind", "resources"),
    [(30, "ResourceSlice", NAMED), (SEMANTIC, "NodeResourceSlice", COUNTED)],
    ids=["1.30", "1.29+kep4381"],
)
async def test_slices_with_the_node_at_the_top(release, kind, resources):
    """A node creates, changes and deletes the slices of its own, whose node stands at the top of them."""
    served = {"resource.k8s.io/v1alpha2": True}
    server = await open_server(release, gates={CLAIM_GATE: True}, runtime_config=served)
    api, kubelet = Caller(server), Caller(server, Peer("system:node:n1", ("system:nodes",)))
    slices = f"/apis/resource.k8s.io/v1alpha2/{kind.lower()}s"

    def slice_of(node: str, **changed) -> dict:
        about = {"apiVersion": "resource.k8s.io/v1alpha2", "kind": kind, "metadata": {"name": node}}
        return {**about, "nodeName": node, "driverName": "d.example.com", **resources, **changed}

    assert (await api.post(slices, slice_of("n2"))).status == 201
    made = await kubelet.post(slices, slice_of("n1"))
    assert made.status == 201, made.raw
    refused = await kubelet.post(slices, slice_of("n3"))
    assert refused.body["message"].endswith(
        f"can only create {kind} with the same NodeName as the requesting node"
    )
    labelled = {**made.body["metadata"], "labels": {"a": "b"}}
    assert (await kubelet.put(f"{slices}/n1", {**made.body, "metadata": labelled})).status == 200
    assert (await kubelet.put(f"{slices}/n1", slice_of("n1", nodeName="n2"))).status == 422
    assert (await kubelet.put(f"{slices}/n2", slice_of("n2"))).status == 403
    assert (await kubelet.get(f"{slices}/n2")).status == 403
    own = await kubelet.get(f"{slices}?fieldSelector=nodeName%3Dn1")
    assert [obj["metadata"]["name"] for obj in own.body["items"]] == ["n1"]
    assert (await kubelet.delete(f"{slices}/n2")).status == 403
    assert (await kubelet.delete(slices)).status == 403
    assert (await api.get(f"{slices}/n2")).status == 200
    assert (await kubelet.delete(f"{slices}?fieldSelector=nodeName%3Dn1")).status == 200
    assert [obj["metadata"]["name"] for obj in (await api.get(slices)).body["items"]] == ["n2"]
    await close_server(server)
