"""The controller manager: which controllers run, when it is ready, how it ends; and its command line."""

import asyncio

import pytest
from click.testing import CliRunner
from fake_cluster import Cluster
from prometheus_client import CollectorRegistry

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.client.refs import EVENTS, LEASES, NAMESPACES, SERVICE_ACCOUNTS
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.process.component import ComponentContext, ComponentOptions
from kubeskew.apimachinery.process.health_checks import Health
from kubeskew.apimachinery.versions import SUPPORTED, Version
from kubeskew.controllers import cli
from kubeskew.controllers.manager import CONTROLLERS, Manager, ManagerOptions, is_enabled, unknown_controllers


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (["*"], True),
        (["*", "-deployment-controller"], False),
        (["*", "-deployment"], False),
        (["deployment"], True),
        (["replicaset-controller"], False),
        ([], False),
    ],
)
def test_controllers_are_chosen_by_name(wanted, expected):
    """By today's names and those from before 1.28."""
    assert is_enabled("deployment-controller", wanted) is expected


def test_unknown_controllers_are_named():
    """A misspelt name must not go unnoticed."""
    assert unknown_controllers(["*", "-namespace", "-gardener"]) == ["-gardener"]


def test_controllers_have_distinct_names():
    """Each is found under one name; of several generations of a controller a release has one."""
    for version in SUPPORTED:
        gates = FeatureGates(version, {"DynamicResourceAllocation": True})
        names = [controller.name for controller, condition in CONTROLLERS if condition.value(gates)]
        assert len(set(names)) == len(names)
        assert "resourceclaim-controller" in names


@pytest.mark.parametrize(
    ("version", "gates", "runs"),
    [
        ("1.34", ["StorageVersionMigrator"], False),
        ("1.34", ["StorageVersionMigrator", "InformerResourceVersion"], True),
        ("1.35", ["StorageVersionMigrator"], True),
    ],
)
def test_the_migrator_needs_a_gate_of_its_informers(version, gates, runs):
    """Without InformerResourceVersion, off by default up to 1.34, there is no StorageVersionMigrator."""
    given = FeatureGates(Version.parse(version), dict.fromkeys(gates, True))
    names = [controller.name for controller, condition in CONTROLLERS if condition.value(given)]

    assert ("storage-version-migrator-controller" in names) is runs


def test_the_command_refuses_unknown_controllers(tmp_path):
    """Wrong usage is exit 2 with the name."""
    result = CliRunner().invoke(
        cli.controller_manager, ["--kubeconfig", str(tmp_path / "k"), "--controllers", "gardener"]
    )

    assert result.exit_code == 2
    assert "'gardener' is not in the list of known controllers" in result.output


def test_the_command_hands_over_its_flags(tmp_path, monkeypatch):
    """Workers by controller, and the CA from its file."""
    given = {}

    def run_component(name, options, main):
        given.update(name=name, main=main)

    monkeypatch.setattr(cli, "run_component", run_component)
    (tmp_path / "ca").write_text("CA")
    flags = ["--kubeconfig", str(tmp_path / "k"), "--root-ca-file", str(tmp_path / "ca")]
    result = CliRunner().invoke(cli.controller_manager, [*flags, "--concurrent-deployment-syncs", "3"])

    assert result.exit_code == 0, result.output
    assert given["name"] == "controller-manager"


def context(cluster, *, leader_elect=True):
    options = ComponentOptions(
        kubeconfig=None,
        emulated_version=cluster.environment.version,
        feature_gates=cluster.environment.gates,
        bind_address="",
        secure_port=0,
        leader_elect=leader_elect,
        verbosity=0,
    )
    return ComponentContext(
        name="controller-manager",
        environment=cluster.environment,
        client=cluster.client,
        health=Health(CollectorRegistry()),
        stop=asyncio.Event(),
        options=options,
        identity="me",
    )


OPTIONS = ManagerOptions(controllers=["serviceaccount", "resourceclaim-controller"], root_ca="CA")


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_it_works_while_it_leads_and_gives_the_lease_back():
    """Ready means leading and synced; a graceful stop ends the controllers and frees the lease."""
    cluster = Cluster()
    ctx = context(cluster)
    await cluster.client.create(NAMESPACES, {"metadata": {"name": "ns"}, "spec": {}})
    running = asyncio.create_task(Manager(ctx, OPTIONS).run())

    assert ctx.health.failing()

    await asyncio.sleep(1)
    lease = await cluster.client.get(LEASES, "kube-controller-manager", "kube-system")

    assert ctx.health.failing() == []
    assert lease["spec"]["holderIdentity"] == "me"
    assert await cluster.client.get(SERVICE_ACCOUNTS, "default", "ns")

    (event,) = (await cluster.client.list(EVENTS))["items"]
    assert event["message"] == "me became leader"
    assert event["source"] == {"component": "kube-controller-manager"}

    ctx.stop.set()
    await running
    lease = await cluster.client.get(LEASES, "kube-controller-manager", "kube-system")

    assert lease["spec"]["holderIdentity"] == ""
    assert ctx.health.failing()


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_it_leads_again_after_it_lost_the_lease():
    """An outage longer than the renew deadline ends the controllers; they come back with the server."""
    cluster = Cluster()
    ctx = context(cluster)
    running = asyncio.create_task(Manager(ctx, OPTIONS).run())
    await asyncio.sleep(1)
    cluster.server.outage = lambda request: ConnectionResetError() if request.method != "GET" else None
    await asyncio.sleep(20)

    assert ctx.health.failing()

    cluster.server.outage = None
    await asyncio.sleep(20)

    assert ctx.health.failing() == []

    ctx.stop.set()
    await running


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_it_can_do_without_a_lease():
    """--no-leader-elect works at once and writes no lease."""
    cluster = Cluster()
    ctx = context(cluster, leader_elect=False)
    running = asyncio.create_task(Manager(ctx, OPTIONS).run())
    await asyncio.sleep(1)

    assert ctx.health.failing() == []
    assert (await cluster.client.list(LEASES))["items"] == []

    ctx.stop.set()
    await running


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_a_resource_that_is_not_served_holds_up_nobody_else():
    """A controller waits for its resource, the others work, and the manager is ready."""
    cluster = Cluster()
    ctx = context(cluster)

    def no_claims(request):
        return errors.unknown_path() if "resource.k8s.io" in request.target else None

    cluster.server.outage = no_claims
    await cluster.client.create(NAMESPACES, {"metadata": {"name": "ns"}, "spec": {}})
    running = asyncio.create_task(Manager(ctx, OPTIONS).run())
    await asyncio.sleep(5)

    assert ctx.health.failing() == []
    assert await cluster.client.get(SERVICE_ACCOUNTS, "default", "ns")

    ctx.stop.set()
    await running


@pytest.mark.asyncio
@pytest.mark.looptime
@pytest.mark.parametrize(("minor", "measured"), [(34, False), (35, True)])
async def test_queues_have_the_names_that_upstream_gives_them(minor, measured):
    """Some controllers have no queue upstream, or one without a name, which metrics do not report."""
    cluster = Cluster(Version.parse(f"1.{minor}"), {"DRADeviceTaints": True})
    ctx = context(cluster, leader_elect=False)
    running = asyncio.create_task(Manager(ctx, ManagerOptions(controllers=["*"], root_ca="CA")).run())
    await asyncio.sleep(1)

    def depth(name):
        return ctx.health.registry.get_sample_value("workqueue_depth", {"name": name})

    assert depth("serviceaccount_tokens_service") == depth("node_lifecycle_controller") == 0
    assert depth("certificate") == 0
    assert depth("certificatesigningrequest_cleaner") is None
    assert (depth("device-taint-eviction-controller") is not None) is measured

    ctx.stop.set()
    await running
