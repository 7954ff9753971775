"""The drivers of the local cluster: their processes, files, accounts and switches."""

import json
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from cryptography import x509

from kubeskew.apimachinery.client.kubeconfig import load_kubeconfig
from kubeskew.apimachinery.known_names import CONTROLLER
from kubeskew.cluster import change_plan, config, creation, driver_accounts, drivers, launcher
from kubeskew.cluster.driver_accounts import introduce
from kubeskew.cluster.failures import UserError
from kubeskew.cluster.state import StateDir

DRIVER = "gpu.example.com"
KINDS = (drivers.KIND, CONTROLLER)
FILE = {
    "version": "1.35",
    "featureGates": {"DRAExtendedResource": True},
    "nodes": [
        {"name": "a", "drivers": [{"name": DRIVER, "devices": 2}]},
        {"name": "b", "drivers": [{"name": DRIVER, "profile": "a100-mig"}, {"name": "nic.example.com"}]},
        {"name": "c"},
    ],
}


@pytest.fixture
def state(ports):
    made = creation.plan(config.parse(FILE, "test"), ports)
    made.runtime_dir = "/short"
    return made


def written(tmp_path, state, name=DRIVER):
    """The driver's file."""
    directory = StateDir(tmp_path)
    process = state.processes[f"driver/{name}"]
    drivers.write_file(directory, state, process)
    return json.loads(directory.nodes_file(process.name).read_text())


def test_each_driver_is_a_component(state):
    """One per name, after the rest; it has the cluster's version, and none of its gates."""
    assert [*state.components()][-2:] == [f"driver/{DRIVER}", "driver/nic.example.com"]
    process = state.processes[f"driver/{DRIVER}"]
    assert (process.kind, process.version, process.gates) == ("driver", "1.35", {})


def test_another_library_can_be_chosen(ports):
    """`components` gives a driver the library of another release."""
    file = {**FILE, "components": {f"driver/{DRIVER}": {"version": "1.36"}}}
    made = creation.plan(config.parse(file, "test"), ports)

    assert made.processes[f"driver/{DRIVER}"].version == "1.36"


def test_its_file_names_its_nodes_and_where_they_look_for_it(tmp_path, state):
    """Devices as in the cluster file, directories as the node's kubelet has them."""
    first, second = written(tmp_path, state)["nodes"]

    assert (first["name"], first["devices"], second["profile"]) == ("a", 2, "a100-mig")
    assert first["registrarDir"] == "/short/a/registry"
    assert first["cdiDir"] == str(tmp_path / "kubelet" / "a" / "cdi")
    assert first["dataDir"] == str(tmp_path / "kubelet" / "a" / "kubelet" / "plugins" / DRIVER)


def test_the_kubelets_file_has_no_drivers(tmp_path, state):
    """Drivers are processes of their own, started with their own credentials."""
    directory = StateDir(tmp_path)
    launcher.write_nodes_file(directory, state, state.processes["kubelet-1"])
    arguments = launcher.arguments(directory, state, state.processes[f"driver/{DRIVER}"])

    assert "drivers" not in json.loads(directory.nodes_file("kubelet-1").read_text())["nodes"][0]
    assert arguments[:3] == ["driver", "--driver-name", DRIVER]
    assert str(directory.component_kubeconfig(f"system:serviceaccount:kube-system:{DRIVER}")) in arguments


def test_switches_are_kept_per_node_and_taken_back(tmp_path, state):
    """All nodes that have the driver, or those named; each change is a revision of the file."""
    drivers.switch(state, DRIVER, [], {"refusePrepare": True})
    drivers.switch(state, DRIVER, ["b"], {"refusePrepare": None, "devices": 1})
    file = written(tmp_path, state)

    assert file["revision"] == 2
    assert [node["switches"] for node in file["nodes"]] == [{"refusePrepare": True}, {"devices": 1}]
    saved = StateDir(tmp_path)
    saved.save(state)
    assert saved.load().switches == state.switches


@pytest.mark.parametrize(
    ("nodes", "changes", "text"),
    [
        (["c"], {}, "node c does not have the driver gpu.example.com"),
        ([], {"explode": True}, "unknown switch explode; known are refusePrepare, "),
        ([], {"delay": "soon"}, "delay: expected a duration such as 500ms or 2s, found 'soon'"),
        ([], {"health": {"gpu-0": "Fine"}}, "health: gpu-0: expected one of Healthy, Unhealthy, Unknown"),
        ([], {"taints": {"gpu-0": {"key": "x"}}}, "taints: gpu-0: a taint needs a key, and an effect"),
        ([], {"devices": -1}, "devices: expected a number, found -1"),
    ],
)
def test_switches_that_cannot_be(state, nodes, changes, text):
    """The error says what is wrong, and nothing changed."""
    with pytest.raises(UserError, match=text):
        drivers.switch(state, DRIVER, nodes, changes)

    assert state.driver_revision == 0


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (
            {"name": "d", "profile": "b200"},
            r"drivers\[0\].profile: expected a100-mig or h100.*, found 'b200'",
        ),
        ({"name": "d", "devices": "many"}, r"drivers\[0\].devices: expected a number, found 'many'"),
        ({"devices": 1}, "expected `name`: the driver's name"),
        ({"name": "d", "color": "red"}, "unknown key 'color'"),
    ],
)
def test_entries_that_are_no_driver(entry, text):
    """The cluster file is refused, with the place."""
    with pytest.raises(UserError, match=text):
        config.parse({"nodes": [{"name": "a", "drivers": [entry]}]}, "test")


def test_drivers_have_no_version_to_change(state):
    """Asked for by name they refuse; meant with all others they are left out."""
    with pytest.raises(UserError, match="has no Kubernetes version and no feature gates"):
        change_plan.versioned(state, [f"driver/{DRIVER}"])

    assert not [name for name in change_plan.versioned(state, ()) if name.startswith("driver/")]


async def test_the_server_learns_of_their_accounts(state):
    """A role for all, an account and a binding for each; what is there already is fine."""
    made = []

    class Probes:
        async def request(self, method, url, body=None):
            made.append((url.rpartition("/")[2], body["metadata"]["name"]))
            return (409 if len(made) % 2 else 201), ""

    await introduce(Probes(), state)

    assert made[:3] == [
        ("clusterroles", "kubeskew:driver"),
        ("serviceaccounts", DRIVER),
        ("clusterrolebindings", f"kubeskew:driver:{DRIVER}"),
    ]
    assert len(made) == 5


def test_only_drivers_with_a_controller_may_write_claims():
    """A driver has a controller's account, and its rights, where some node's entry asks for one."""
    nodes = {
        "n1": {"drivers": [{"name": "with", "controller": True}, {"name": "without"}]},
        "n2": {"drivers": [{"name": "with"}, {"name": "off", "controller": False}]},
    }
    names = drivers.controlled(nodes)
    made = [body for path, body in driver_accounts._controllers(names)]
    bindings = [body for body in made if "subjects" in body]

    assert names == ["with"]
    assert [body["metadata"]["name"] for body in made[:3]] == [
        "kubeskew:driver-controller",
        "driver-controller.with",
        "kubeskew:driver-controller:with",
    ]
    assert {subject["name"] for body in bindings for subject in body["subjects"]} == {
        "driver-controller.with"
    }
    assert not any("off" in body["metadata"]["name"] for body in made)


@pytest.fixture
def controlled(ports):
    """The record of a cluster whose driver has a controller."""
    nodes = [{"name": "a", "drivers": [{"name": DRIVER, "devices": 2, "controller": True}]}]
    spec = config.parse({"version": "1.29", "nodes": nodes}, "test")
    return creation.plan(spec, ports)


def test_a_controller_is_a_process_with_an_account_of_its_own(tmp_path, controlled):
    """A driver's controller reads the driver's nodes, and identifies as nobody else."""
    directory = StateDir(tmp_path)
    process = controlled.processes[f"driver-controller/{DRIVER}"]
    arguments = launcher.arguments(directory, controlled, process)
    drivers.write_file(directory, controlled, process)
    account = f"system:serviceaccount:kube-system:driver-controller.{DRIVER}"

    assert arguments[:3] == ["driver-controller", "--driver-name", DRIVER]
    assert str(directory.component_kubeconfig(account)) in arguments
    assert drivers.users(controlled.nodes)[process.name] == account
    assert [n["name"] for n in json.loads(directory.nodes_file(process.name).read_text())["nodes"]] == ["a"]
    assert process.port != controlled.processes[f"driver/{DRIVER}"].port


def test_a_driver_goes_to_another_release_only_by_name(controlled):
    """A driver and its controller go to the library of a release when named; with others they stay."""
    name = f"driver-controller/{DRIVER}"

    assert change_plan.movable(controlled, [name]) == [name]
    assert change_plan.movable(controlled, ["scheduler", name]) == ["scheduler", name]
    assert name not in change_plan.movable(controlled, ())
    assert sorted(change_plan.movable(controlled, [f"driver/{DRIVER}"])) == [name, f"driver/{DRIVER}"]
    assert f"driver/{DRIVER}" not in change_plan.movable(controlled, ())
    with pytest.raises(UserError, match="has no Kubernetes version"):
        change_plan.versioned(controlled, [name])


def test_a_driver_means_its_plugins_and_its_controller(ports, controlled):
    """A cluster file gives both the library of another release by one name, or one of them by its own."""
    both = [f"driver/{DRIVER}", f"driver-controller/{DRIVER}"]

    def versions(components):
        nodes = [{"name": "a", "drivers": [{"name": DRIVER, "devices": 2, "controller": True}]}]
        spec = config.parse({"version": "1.29", "nodes": nodes, "components": components}, "test")
        made = creation.plan(spec, ports)
        return [made.processes[name].version for name in both]

    older = {"version": "1.28"}
    assert versions({f"driver/{DRIVER}": older}) == ["1.28", "1.28"]
    assert versions({f"driver-plugin/{DRIVER}": older}) == ["1.28", "1.29"]
    newer_controller = {f"driver/{DRIVER}": older, f"driver-controller/{DRIVER}": {"version": "1.30"}}
    assert versions(newer_controller) == ["1.28", "1.30"]
    assert change_plan.select(controlled, [f"driver/{DRIVER}"]) == both
    with pytest.raises(UserError, match=f"did you mean driver-plugin/{DRIVER}"):
        versions({f"driver-plugins/{DRIVER}": older})


@pytest.mark.filterwarnings("ignore:Attribute's length")  # of who reads the certificate here
def test_a_record_without_controllers_gets_them(tmp_path, ports, controlled):
    """A cluster from before controllers were processes gets them, with ports and credentials of their own and
    the known bugs of their plugins."""
    directory, name = StateDir(tmp_path), f"driver-controller/{DRIVER}"
    now = datetime(2026, 1, 1, tzinfo=UTC)
    creation.write_credentials(directory, controlled, now)
    account = directory.component_kubeconfig(drivers.user_of(controlled.processes.pop(name)))
    account.unlink()
    plugin = controlled.processes[f"driver/{DRIVER}"]
    plugin.version, plugin.bugs = "1.28", {"k8s-116411": False}

    assert creation.add_controllers(controlled, ports) == [name]
    creation.add_controller_credentials(directory, controlled, now, [name])
    process = controlled.processes[name]
    others = [p.port for p in controlled.processes.values() if p is not process]
    assert (process.kind, process.version, process.port in others) == (CONTROLLER, "1.28", False)
    assert process.bugs == plugin.bugs
    authority = x509.load_pem_x509_certificate(directory.ca.read_bytes())
    certificate = x509.load_pem_x509_certificate(load_kubeconfig(account).certificate)
    certificate.verify_directly_issued_by(authority)
    assert certificate.subject.rfc4514_string().startswith(f"CN={drivers.user_of(process)}")
    assert creation.add_controllers(controlled, ports) == []


async def test_deploying_a_driver_lets_the_scheduler_read_its_parameters():
    """Controller and scheduler may read the vendor's kind where the driver has semantic parameters."""
    made = []

    class Probes:
        async def request(self, method, url, body=None):
            made.append(body)
            return 201, ""

    def state(controller):
        server = SimpleNamespace(url=lambda path: path)
        kinds = {kind: [SimpleNamespace(kind=kind, name=f"{kind}/{DRIVER}")] for kind in KINDS}
        nodes = {"a": {"drivers": [{"name": DRIVER, "controller": controller}]}}
        return SimpleNamespace(of_kind={"apiserver": [server], **kinds}.__getitem__, nodes=nodes)

    await introduce(Probes(), state(True))
    before = [body["metadata"]["name"] for body in made]
    made.clear()
    await introduce(Probes(), state({"semanticParameters": True}))
    role, binding = [b for b in made if b["metadata"]["name"] == f"kubeskew:driver-parameters:{DRIVER}"]

    assert not any("parameters" in name for name in before)
    assert role["rules"] == [
        {"apiGroups": ["dra.example.com"], "resources": ["cardparameters"], "verbs": ["get", "list", "watch"]}
    ]
    assert [subject["name"] for subject in binding["subjects"]] == [
        f"driver-controller.{DRIVER}",
        "system:kube-scheduler",
    ]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
