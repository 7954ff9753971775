"""The DRA manager.

Order of its checks, wording of its errors, what it remembers, what it hands to containers.
"""

import pytest
from prometheus_client import CollectorRegistry

from apimachinery.client.refs import dra_refs
from apimachinery.gates import FeatureGates
from apimachinery.versions import Version
from kubelet.behaviour import behaviour_of
from kubelet.devices import DeviceError
from kubelet.dra.claims import ClaimCache, ClaimInfo
from kubelet.dra.health import HealthCache
from kubelet.dra.manager import DRAManager
from kubelet.dra.plugin import ClaimFailed, PluginError, PluginRegistry, PreparedDevice
from kubelet.dra.texts import texts_for
from kubelet.metrics import KubeletMetrics

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

DRIVER = "gpu.example.com"


class FakePlugin:
    """A driver that answers as told and counts."""

    driver = DRIVER
    connected = True

    def __init__(self):
        self.prepare_calls, self.unprepare_calls = [], []
        self.answer = lambda claim: [
            PreparedDevice("node-1", "gpu-0", ("req",), (f"{DRIVER}/claim={claim.name}-req",)),
            PreparedDevice("node-1", "gpu-1", ("other",), (f"{DRIVER}/claim={claim.name}-other",)),
        ]
        self.failure = None
        self.extra = {}

    async def node_prepare_resources(self, claims):
        self.prepare_calls.append([claim.name for claim in claims])
        return self._answers(claims, self.answer)

    async def node_unprepare_resources(self, claims):
        self.unprepare_calls.append([claim.name for claim in claims])
        return self._answers(claims, lambda claim: None)

    def _answers(self, claims, answer):
        if self.failure is not None:
            raise self.failure
        found = {claim.uid: answer(claim) for claim in claims}
        return {uid: value for uid, value in found.items() if value != "skip"} | self.extra


class MemoryStore:
    """A checkpoint without a file."""

    def __init__(self):
        self.infos, self.writes = [], 0

    def load(self):
        return self.infos

    def store(self, infos):
        self.infos, self.writes = list(infos), self.writes + 1

    def users(self):
        return {info.name: info.pod_uids for info in self.infos}


class Fixture:
    """A manager and what it stands on."""

    def __init__(self, server, client, clock, directory, minor=36, gates=None):
        self.server, self.client, self.minor = server, client, minor
        version = Version(minor)
        self.refs = dra_refs(version)
        self.behaviour = behaviour_of(version, FeatureGates(version, gates))
        texts = texts_for(minor)
        self.plugins, self.plugin, self.store = (
            PluginRegistry(texts.unregistered),
            FakePlugin(),
            MemoryStore(),
        )
        self.plugins.register(self.plugin)
        self.cache = ClaimCache(self.store)
        self.health = HealthCache(directory / "health", clock)
        self.metrics = KubeletMetrics(CollectorRegistry())
        self.manager = DRAManager(
            "node-1", client, self.refs.claims, self.plugins, self.cache, self.health,
            self.behaviour, texts, clock, self.metrics,
        )  # fmt: skip

    async def claim(self, name, *users, driver=DRIVER, owner=None):
        owners = [{"controller": True, "uid": owner}] if owner else []
        body = {
            "metadata": {"name": name, "namespace": "default", "ownerReferences": owners},
            "status": {
                "reservedFor": [{"resource": "pods", "name": user, "uid": user} for user in users],
                "allocation": {"devices": {"results": [{"driver": driver, "request": "req"}]}},
            },
        }
        return await self.client.create(self.refs.claims, body)


@pytest.fixture
def make(server, client, clock, tmp_path):
    return lambda *args, **kwargs: Fixture(server, client, clock, tmp_path, *args, **kwargs)


def pod(*claims, uid="p", uses=(), extended=None, requests=None, templates=()):
    entries = [{"name": f"entry-{name}", "resourceClaimName": name} for name in claims]
    entries += [{"name": name, "resourceClaimTemplateName": "t"} for name in templates]
    resources = {"claims": list(uses), "requests": requests or {}}
    return {
        "metadata": {"name": "pod", "namespace": "default", "uid": uid},
        "spec": {"resourceClaims": entries, "containers": [{"name": "main", "resources": resources}]},
        "status": {"extendedResourceClaimStatus": extended} if extended else {},
    }


async def prepare_error(fixture, *args, **kwargs):
    with pytest.raises(DeviceError) as caught:
        await fixture.manager.prepare(pod(*args, **kwargs))
    return str(caught.value)


async def test_a_claim_is_prepared_once_and_checkpointed(make):
    """The driver is called once for all claims of a pod, and not again for a second pod."""
    fixture = make()
    await fixture.claim("a", "p", "q")
    await fixture.claim("b", "p")
    await fixture.manager.prepare(pod("a", "b"))
    await fixture.manager.prepare(pod("a", "b"))
    await fixture.manager.prepare(pod("a", uid="q"))

    assert fixture.plugin.prepare_calls == [["a", "b"]]
    assert fixture.store.users() == {"a": {"p", "q"}, "b": {"p"}}


async def test_a_restarted_manager_asks_the_driver_again(make):
    """That a claim is prepared is not in the checkpoint: drivers answer twice the same."""
    fixture = make()
    await fixture.claim("a", "p")
    await fixture.manager.prepare(pod("a"))
    fixture.cache.load()
    for info in fixture.cache.infos():
        info.prepared = False
    await fixture.manager.prepare(pod("a"))

    assert fixture.plugin.prepare_calls == [["a"], ["a"]]


ERRORS = {
    "no claim": 'fetch ResourceClaim missing: resourceclaims.resource.k8s.io "missing" not found',
    "not reserved": "pod pod (p) is not allowed to use ResourceClaim foreign ({uid})",
    "no driver": "DRA driver other.example.com is not registered",
}


@pytest.mark.parametrize("case", ERRORS)
async def test_a_pod_that_may_not_run_leaves_nothing_behind(make, case):
    """From 1.34 all claims are looked at before the first is remembered.

    No driver is called, nothing stored.
    """
    fixture = make()
    await fixture.claim("good", "p")
    found = await fixture.claim("foreign", "someone", driver=DRIVER)
    await fixture.claim("elsewhere", "p", driver="other.example.com")
    bad = {"no claim": "missing", "not reserved": "foreign", "no driver": "elsewhere"}[case]
    text = await prepare_error(fixture, "good", bad)

    assert text == "prepare dynamic resources: " + ERRORS[case].format(uid=found["metadata"]["uid"])
    assert fixture.store.writes == 0
    assert fixture.plugin.prepare_calls == []


async def test_up_to_1_33_the_claims_before_the_bad_one_are_remembered(make):
    """Older managers check and remember claim by claim, in older words."""
    fixture = make(33, gates={"DynamicResourceAllocation": True})
    await fixture.claim("good", "p")
    foreign = await fixture.claim("foreign", "someone")
    text = await prepare_error(fixture, "good", "foreign")

    uid = foreign["metadata"]["uid"]
    assert text == f"pod pod(p) is not allowed to use resource claim foreign({uid})"
    assert fixture.store.users() == {"good": {"p"}}
    assert fixture.plugin.prepare_calls == []


async def test_an_old_claim_of_the_same_name_blocks_a_new_one(make):
    """From 1.34 a claim that replaced one still in use is not prepared."""
    fixture = make()
    await fixture.claim("a", "p")
    fixture.cache.add(ClaimInfo("default", "a", "old-uid", {"gone"}, {DRIVER: []}))
    text = await prepare_error(fixture, "a")

    assert text == (
        "prepare dynamic resources: old ResourceClaim with same name a and different UID old-uid "
        "still exists (previous pod force-deleted?!)"
    )


async def test_a_template_claim_must_be_the_pods_own(make):
    """A claim from a template that belongs to another pod is refused; one not made yet is waited for."""
    fixture = make()
    await fixture.claim("made", "p", owner="someone")
    asked = pod(templates=["t"])
    with pytest.raises(DeviceError, match="ResourceClaim not created yet"):
        await fixture.manager.prepare(asked)
    asked["status"]["resourceClaimStatuses"] = [{"name": "t", "resourceClaimName": "made"}]
    with pytest.raises(DeviceError, match=r"was not created for pod default/pod \(pod is not owner\)"):
        await fixture.manager.prepare(asked)
    asked["status"]["resourceClaimStatuses"] = [{"name": "t"}]
    await fixture.manager.prepare(asked)

    assert fixture.store.writes == 0


ANSWERS = {
    "failed": (ClaimFailed("broken"), "NodePrepareResources failed for ResourceClaim a: broken"),
    "skipped": ("skip", "NodePrepareResources skipped 1 ResourceClaims"),
}


@pytest.mark.parametrize("case", ANSWERS)
async def test_a_drivers_refusal_is_told_and_the_use_remembered(make, case):
    """After the driver was called the claim stays in the checkpoint, to be unprepared later."""
    fixture = make()
    await fixture.claim("a", "p")
    answer, text = ANSWERS[case]
    fixture.plugin.answer = lambda claim: answer

    assert await prepare_error(fixture, "a") == f"prepare dynamic resources: {text}"
    assert fixture.store.users() == {"a": {"p"}}


async def test_a_broken_connection_and_unknown_answers_are_told(make):
    """Failures of the call as a whole, and answers for claims nobody asked about."""
    fixture = make()
    await fixture.claim("a", "p")
    fixture.plugin.failure = PluginError("connection refused")
    assert await prepare_error(fixture, "a") == (
        "prepare dynamic resources: NodePrepareResources: connection refused"
    )
    fixture.plugin.failure, fixture.plugin.extra = None, {"strange": []}
    assert await prepare_error(fixture, "a") == (
        "prepare dynamic resources: NodePrepareResources returned result for unknown claim UID strange"
    )


async def test_the_last_user_gives_the_claim_back(make):
    """Unprepare reaches the driver when no other pod uses the claim; again it does nothing."""
    fixture = make()
    await fixture.claim("a", "p", "q")
    await fixture.manager.prepare(pod("a"))
    await fixture.manager.prepare(pod("a", uid="q"))
    await fixture.manager.unprepare(pod("a"))
    assert fixture.plugin.unprepare_calls == []
    assert fixture.store.users() == {"a": {"q"}}
    await fixture.manager.unprepare(pod("a", uid="q"))
    await fixture.manager.unprepare(pod("a", uid="q"))

    assert fixture.plugin.unprepare_calls == [["a"]]
    assert fixture.store.users() == {}


@pytest.mark.parametrize(("minor", "calls"), [(37, []), (36, [["a"]])])
async def test_up_to_1_36_a_pod_that_failed_takes_a_claim_from_its_user(make, minor, calls):
    """When it is deleted; a claim with several users stays theirs."""
    fixture = make(minor)
    await fixture.claim("a", "p")
    await fixture.claim("shared", "p", "q")
    await fixture.manager.prepare(pod("a", "shared"))
    await fixture.manager.prepare(pod("shared", uid="q"))
    await prepare_error(fixture, "a", "shared", uid="not-reserved")
    await fixture.manager.unprepare(pod("a", "shared", uid="not-reserved"))
    assert fixture.plugin.unprepare_calls == calls
    assert fixture.store.users()["shared"] == {"p", "q"}


@pytest.mark.parametrize(("minor", "waits"), [(37, True), (36, False)])
async def test_since_1_37_a_claim_that_is_given_back_is_not_taken(make, minor, waits):
    """A pod that comes while the driver is told waits for its next turn; before, it got in."""
    fixture = make(minor)
    await fixture.claim("a", "p", "q")
    await fixture.manager.prepare(pod("a"))
    working, refused = fixture.plugin.node_unprepare_resources, []

    async def meanwhile(claims):
        try:
            await fixture.manager.prepare(pod("a", uid="q"))
        except DeviceError as error:
            refused.append(str(error))
        return await working(claims)

    fixture.plugin.node_unprepare_resources = meanwhile
    await fixture.manager.unprepare(pod("a"))
    assert bool(refused) == waits
    assert fixture.plugin.prepare_calls == [["a"]]


@pytest.mark.parametrize(("minor", "calls"), [(37, [["a"]]), (36, [])])
async def test_since_1_37_what_is_given_back_does_not_depend_on_the_gate(make, minor, calls):
    """The claim behind extended resources goes with its pod; before, the reconciler had to find it."""
    fixture = make(minor, gates={"DRAExtendedResource": True} if minor == 36 else None)
    await fixture.claim("a", "p")
    await fixture.manager.prepare(pod(extended={"resourceClaimName": "a", "requestMappings": []}))
    fixture.manager._extended = False
    await fixture.manager.unprepare(pod(extended={"resourceClaimName": "a", "requestMappings": []}))
    assert fixture.plugin.unprepare_calls == calls


async def test_a_failed_unprepare_keeps_the_claim(make):
    """Without its driver a claim cannot be given back; it stays until the driver returns."""
    fixture = make()
    await fixture.claim("a", "p")
    await fixture.manager.prepare(pod("a"))
    fixture.plugins.deregister(fixture.plugin)
    with pytest.raises(DeviceError, match=r"unprepare dynamic resources: DRA driver gpu.example.com is not"):
        await fixture.manager.unprepare(pod("a"))

    assert fixture.store.users() == {"a": {"p"}}


async def test_reconciling_frees_what_lost_pods_hold(make):
    """Claims whose pods are not on the node any more are unprepared; those in use stay."""
    fixture = make()
    await fixture.claim("a", "p")
    await fixture.claim("b", "q")
    await fixture.manager.prepare(pod("a"))
    await fixture.manager.prepare(pod("b", uid="q"))
    await fixture.manager.reconcile_once({"q"})

    assert fixture.plugin.unprepare_calls == [["a"]]
    assert fixture.store.users() == {"b": {"q"}}


@pytest.mark.parametrize(
    ("uses", "expected"),
    [
        pytest.param([{"name": "entry-a", "request": "req"}], ["a-req"], id="one request"),
        pytest.param([{"name": "entry-a"}], ["a-req", "a-other"], id="the whole claim"),
        pytest.param([], [], id="not used by this container"),
    ],
)
async def test_a_container_gets_the_devices_it_names(make, uses, expected):
    """CDI devices go to the containers that list the claim, by request."""
    fixture = make()
    await fixture.claim("a", "p")
    asked = pod("a", uses=uses)
    await fixture.manager.prepare(asked)
    devices = fixture.manager.for_container(asked, asked["spec"]["containers"][0])

    assert devices.cdi_ids == [f"{DRIVER}/claim={name}" for name in expected]


@pytest.mark.parametrize("gate", [True, False])
async def test_extended_resources_come_by_container_and_resource(make, gate):
    """With the gate the mappings of the pod's status count, for resources the container asks for.

    Else nothing.
    """
    fixture = make(gates={"DRAExtendedResource": gate})
    await fixture.claim("a", "p")
    mapping = {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "req"}
    other = {"containerName": "main", "resourceName": "example.com/nic", "requestName": "other"}
    extended = {"resourceClaimName": "a", "requestMappings": [mapping, other]}
    asked = pod(extended=extended, requests={"example.com/gpu": "1", "cpu": "1"})
    await fixture.manager.prepare(asked)
    devices = fixture.manager.for_container(asked, asked["spec"]["containers"][0])

    assert devices.cdi_ids == ([f"{DRIVER}/claim=a-req"] if gate else [])
    assert fixture.plugin.prepare_calls == ([["a"]] if gate else [])
    await fixture.manager.unprepare(asked)
    assert fixture.plugin.unprepare_calls == ([["a"]] if gate else [])


async def test_only_containers_that_ask_get_extended_resources(make):
    """One container of several; an ephemeral one has no part in the pod's devices. All of them need the claim
    to be prepared, though."""
    fixture = make()
    await fixture.claim("a", "p")
    mapping = {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "req"}
    extended = {"resourceClaimName": "a", "requestMappings": [mapping]}
    asked = pod(extended=extended, requests={"example.com/gpu": "1"})
    others = [{"name": "debug"}, {"name": "side", "resources": {"requests": {"example.com/gpu": "1"}}}]
    for container in others:
        with pytest.raises(DeviceError, match="unable to get claim info for claim a in namespace default"):
            fixture.manager.for_container(asked, container)
    await fixture.manager.prepare(asked)
    assert [fixture.manager.for_container(asked, each).cdi_ids for each in others] == [[], []]


async def test_a_container_that_restarts_without_the_gate_has_no_extended_resources(make):
    """KEP-5004 says that it keeps its CDI devices; upstream's GetResources is behind the gate. What is
    prepared stays so, and a kubelet with the gate finds it again."""
    before = make(gates={"DRAExtendedResource": True})
    await before.claim("a", "p")
    mapping = {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "req"}
    extended = {"resourceClaimName": "a", "requestMappings": [mapping]}
    asked = pod(extended=extended, requests={"example.com/gpu": "1"})
    await before.manager.prepare(asked)
    for gate, ids in ((False, []), (True, [f"{DRIVER}/claim=a-req"])):
        before.manager._extended = gate
        assert before.manager.for_container(asked, asked["spec"]["containers"][0]).cdi_ids == ids
    assert before.plugin.unprepare_calls == []


@pytest.mark.parametrize(("minor", "failed"), [(33, "true"), (34, "false"), (36, "true")])
async def test_operations_are_measured(make, minor, failed):
    """dra_operations_duration_seconds tells operation and outcome, in 1.34 and 1.35 the wrong way round."""
    fixture = make(minor)
    await fixture.claim("a", "p")
    await fixture.manager.prepare(pod("a"))
    await fixture.manager.prepare(pod("a"))
    await prepare_error(fixture, "missing")
    registry = fixture.metrics.dra_operations_duration

    counts = {
        (sample.labels["operation_name"], sample.labels["is_error"]): sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name.endswith("_count")
    }
    assert counts == {("PrepareResources", "false"): 2, ("PrepareResources", "true"): 1} | (
        {} if failed == "true" else {("PrepareResources", "false"): 1, ("PrepareResources", "true"): 2}
    )


@pytest.mark.parametrize(
    ("minor", "ordinary", "extended"),
    [
        (
            33,
            "locked cache operation: unable to get claim info for claim a in namespace default",
            "locked cache operation: unable to get claim info for claim a in namespace default",
        ),
        (
            36,
            "internal error: unable to get claim info for ResourceClaim a",
            "unable to get claim info for claim a in namespace default",
        ),
        (
            37,
            "internal error: unable to get claim info for ResourceClaim a in namespace default",
            "internal error: unable to get claim info for ResourceClaim a in namespace default",
        ),
    ],
)
async def test_a_claim_that_nobody_prepared_fails_the_container(make, minor, ordinary, extended):
    """In the words of each release, which 1.34 to 1.36 have two of."""
    fixture = make(minor)
    fixture.manager._extended = True
    mapping = {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "req"}
    status = {"resourceClaimName": "a", "requestMappings": [mapping]}
    for asked, text in (
        (pod("a", uses=[{"name": "entry-a"}]), ordinary),
        (pod(extended=status, requests={"example.com/gpu": "1"}), extended),
    ):
        with pytest.raises(DeviceError) as caught:
            fixture.manager.for_container(asked, asked["spec"]["containers"][0])
        assert str(caught.value) == text


@pytest.mark.parametrize(
    ("minor", "prepare", "unprepare"),
    [
        (
            33,
            (
                f"failed to get gRPC client for driver {DRIVER}: plugin name {DRIVER} not found in the list "
                "of registered DRA plugins"
            ),
            (
                f"get gRPC client for DRA driver {DRIVER}: plugin name {DRIVER} not found in the list of "
                "registered DRA plugins"
            ),
        ),
        (
            36,
            f"prepare dynamic resources: DRA driver {DRIVER} is not registered",
            f"unprepare dynamic resources: DRA driver {DRIVER} is not registered",
        ),
    ],
)
async def test_a_driver_that_is_not_there_is_told(make, minor, prepare, unprepare):
    """At the start and at the end of a pod."""
    fixture = make(minor)
    await fixture.claim("a", "p")
    await fixture.manager.prepare(pod("a"))
    fixture.plugins.deregister(fixture.plugin)
    with pytest.raises(DeviceError) as caught:
        await fixture.manager.unprepare(pod("a"))
    assert str(caught.value) == unprepare
    await fixture.claim("b", "p")
    assert await prepare_error(fixture, "b") == prepare


@pytest.mark.parametrize("gate", [True, False])
async def test_a_group_shares_its_claim(make, gate):
    """A claim of the pod's group, reserved for the group, is as good as the pod's own; with the gate."""
    fixture = make(gates={"DRAWorkloadResourceClaims": gate, "GenericWorkload": True})
    group = {"kind": "PodGroup", "name": "g", "uid": "x", "controller": True}
    user = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "x"}
    results = [{"driver": DRIVER, "request": "req"}]
    claim = {
        "metadata": {"name": "a", "namespace": "default", "ownerReferences": [group]},
        "status": {"reservedFor": [user], "allocation": {"devices": {"results": results}}},
    }
    await fixture.client.create(fixture.refs.claims, claim)
    asked = pod(templates=("of-group",))
    asked["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    asked["status"] = {"resourceClaimStatuses": [{"name": "of-group", "resourceClaimName": "a"}]}
    if gate:
        await fixture.manager.prepare(asked)
        assert fixture.plugin.prepare_calls == [["a"]]
    else:
        with pytest.raises(DeviceError, match="pod is not owner"):
            await fixture.manager.prepare(asked)


async def skipping_claim(fixture, name, *operations):
    results = [{"driver": DRIVER, "request": "req", "skipNodeOperations": list(operations)}]
    user = {"resource": "pods", "name": "p", "uid": "p"}
    claim = {
        "metadata": {"name": name, "namespace": "default"},
        "status": {"reservedFor": [user], "allocation": {"devices": {"results": results}}},
    }
    await fixture.client.create(fixture.refs.claims, claim)


SKIPS = {"DRAOptionalNodeOperations": True}


@pytest.mark.parametrize(
    ("operations", "prepares", "unprepares"),
    [(("*",), 0, 0), (("NodeUnprepareResources",), 1, 0), ((), 1, 1), (("SomethingElse",), 1, 1)],
)
async def test_a_driver_is_not_called_for_what_its_devices_do_without(make, operations, prepares, unprepares):
    """With the gate, one without anything on the node need not even be registered."""
    fixture = make(37, gates=SKIPS)
    await skipping_claim(fixture, "a", *operations)
    if not prepares:
        fixture.plugins.deregister(fixture.plugin)
    await fixture.manager.prepare(pod("a"))
    await fixture.manager.unprepare(pod("a"))
    assert (len(fixture.plugin.prepare_calls), len(fixture.plugin.unprepare_calls)) == (prepares, unprepares)
    assert fixture.store.users() == {}


@pytest.mark.parametrize(("minor", "refused"), [(37, True), (36, False)])
async def test_without_the_gate_such_a_claim_is_refused(make, minor, refused):
    """By kubelets that know the field; older ones call the driver."""
    fixture = make(minor)
    await skipping_claim(fixture, "a", "*")
    if refused:
        assert await prepare_error(fixture, "a") == (
            "prepare dynamic resources: ResourceClaim a: "
            "DRAOptionalNodeOperations feature gate is disabled on kubelet"
        )
    else:
        await fixture.manager.prepare(pod("a"))
        assert fixture.plugin.prepare_calls == [["a"]]


async def test_only_prepared_claims_count_as_in_use(make):
    """By driver and in all; after a restart those of running pods count again once they are asked for."""
    fixture = make()
    await fixture.claim("a", "p")
    await fixture.claim("b", "p")
    await fixture.manager.prepare(pod("a"))
    fixture.plugin.failure = PluginError("connection refused")
    await prepare_error(fixture, "b")
    counts = {
        sample.labels["driver_name"]: sample.value
        for metric in fixture.metrics._claims_in_use.collect()
        for sample in metric.samples
    }
    assert counts == {DRIVER: 1, "<any>": 1}
