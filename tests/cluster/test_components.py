"""The promises of the supervisor, on real processes: starts, crashes, versions, gates, kills, the time line.

Every test leaves the shared cluster as it found it: at 1.35, everything ready.
"""

import http.client
import json
import signal
import stat
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from asking import CONFIG_MAPS, Local, advised, config_map, eventually, hold_port, runs

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("components")]

CLUSTER_FILE = """
version: "1.35"
featureGates: {DRAExtendedResource: true}
nodes:
- name: node-1
- name: node-2
  drivers: [{name: gpu.example.com, devices: 2}]
"""
LEASE_SECONDS = 15.0  # how long a leader that does not let go keeps others waiting
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
DRIVER = "driver/gpu.example.com"
VERSIONED = ["apiserver", "controller-manager", "scheduler", "kubelet/node-1", "kubelet/node-2"]
ALL = [*VERSIONED, DRIVER]


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """A cluster at 1.35 with two nodes, in a directory whose name needs quoting everywhere."""
    root = tmp_path_factory.mktemp("components")
    (root / "cluster.yaml").write_text(CLUSTER_FILE)
    local = Local(root / "a b%20#?c")
    try:
        local.run("up", "--config", str(root / "cluster.yaml"))
        yield local
        assert_reported_once(local)
    finally:
        local.run("down", "--purge")


@pytest.fixture
def local(shared: Local) -> Iterator[Local]:
    """The shared cluster; afterwards it must be as it was."""
    yield shared
    found = {name: (row["version"], row["state"]) for name, row in shared.components().items()}
    assert found == dict.fromkeys(ALL, ("1.35", "Ready"))


def assert_reported_once(local: Local) -> None:
    """Of every component, a start is followed by one end, and an end by one start."""
    events = defaultdict(list)
    for component, what in local.timeline():
        events[component].append(what)
    assert set(events) >= set(ALL)
    for component, whats in events.items():
        starts, ends = whats[::2], whats[1::2]
        assert set(starts) == {"started"}, (component, whats)
        assert set(ends) <= {"stopped", "killed"}, (component, whats)


# -- up ------------------------------------------------------------------------------------------------------


def test_up_returns_when_everything_is_there(local: Local):
    """Ready means: all components, the leaders, the nodes, their slices, and namespace default's account."""
    slices = local.get("/apis/resource.k8s.io/v1/resourceslices")["items"]
    holders = {obj["metadata"]["name"]: obj["spec"]["holderIdentity"] for obj in local.get(LEASES)["items"]}
    nodes = local.get("/api/v1/nodes")["items"]

    assert [(slice_["spec"]["nodeName"], len(slice_["spec"]["devices"])) for slice_ in slices] == [
        ("node-2", 2)
    ]
    assert all(holders[name] for name in ("kube-controller-manager", "kube-scheduler"))
    assert [node["metadata"]["labels"]["kubernetes.io/hostname"] for node in nodes] == ["node-1", "node-2"]
    assert {c["status"] for node in nodes for c in node["status"]["conditions"] if c["type"] == "Ready"} == {
        "True"
    }
    local.get("/api/v1/namespaces/default/serviceaccounts/default")
    version = local.get("/version")
    assert (version["minor"], version["gitVersion"].rpartition(".")[0]) == ("35", "v1.35")


def test_secrets_are_the_owners_alone(local: Local):
    """The directory is 0700 and no file below it is open to others; the kubeconfig is block YAML."""
    assert stat.S_IMODE(local.state.stat().st_mode) == 0o700
    opened = [p for p in local.state.rglob("*") if not p.is_symlink() and p.stat().st_mode & 0o077]
    assert opened == []
    text = local.run("kubeconfig").stdout
    assert f"\n    server: https://127.0.0.1:{local.port()}\n" in text
    config = yaml.safe_load(text)
    assert config["current-context"] == config["contexts"][0]["name"]
    assert set(config["users"][0]["user"]) == {"client-certificate-data", "client-key-data"}


def test_status_reports_every_component_and_node(local: Local):
    """`status -o json` has pid, version, gates, log and metrics of components, directories of nodes."""
    status = local.status()
    components = {row["component"]: row for row in status["components"]}

    assert list(components) == ALL
    for row in components.values():
        assert runs(row["pid"])
        gates = "" if row["component"] == DRIVER else "DRAExtendedResource=true"
        assert (row["version"], row["gates"]) == ("1.35", gates)
        assert Path(row["log"]).is_file()
        assert row["metrics"].endswith("/metrics")
    assert [node["name"] for node in status["nodes"]] == ["node-1", "node-2"]
    assert all(
        any(Path(path).is_relative_to(base) for base in (local.state, status["runtimeDir"]))
        for node in status["nodes"]
        for name, path in node.items()
        if name != "name"
    )
    table = local.run("status").stdout.splitlines()
    columns = [column for column in table[0].split() if column != "WORKERS"]  # of a server that has several
    assert columns == ["COMPONENT", "VERSION", "STATE", "PID", "GATES"]
    assert table[1].split()[:3] == ["apiserver", "1.35", "Ready"]


def test_up_again_picks_up_what_is_there(local: Local):
    """A second `up`, with or without the same flags, starts nothing; with others it says what differs."""
    before = local.components()

    assert "picking up" in local.run("up").stderr
    local.run("up", "--version", "1.35", "--nodes", "2", "--feature-gates", "DRAExtendedResource=true")
    assert local.components() == before
    assert "apiserver is at 1.35, not 1.36" in local.refused("up", "--version", "1.36")
    assert "it has 2 nodes, not 5" in local.refused("up", "--nodes", "5")
    assert "it has 1 API servers, not 2" in local.refused("up", "--ha", "2")


@pytest.mark.slow
def test_two_servers_share_one_log_next_to_another_cluster(fresh: Local, local: Local):
    """A write through one API server is in a consistent list and in a watch through the other."""
    with hold_port() as listener:
        port = listener.getsockname()[1]
    fresh.run("up", "--nodes", "0", "--ha", "2", "--port", str(port))
    assert fresh.status()["server"] == f"https://127.0.0.1:{port}"
    revision = fresh.get(CONFIG_MAPS, "apiserver-2")["metadata"]["resourceVersion"]
    watching = fresh.connect("apiserver-2")
    watching.request(
        "GET", f"{CONFIG_MAPS}?watch=true&resourceVersion={revision}", headers=dict(fresh.headers())
    )
    response = watching.getresponse()

    made = fresh.create(CONFIG_MAPS, config_map("shared"), "apiserver-1")

    listed = fresh.get(CONFIG_MAPS, "apiserver-2")["items"]
    assert made in [{**item, "apiVersion": "v1", "kind": "ConfigMap"} for item in listed]
    assert seen(response, "shared") == made
    watching.close()
    # half of a rollout: one server stays behind
    fresh.run("upgrade", "--to", "1.37", "--component", "apiserver-1")
    assert fresh.get("/version", "apiserver-1")["minor"] == "37"
    assert fresh.get(f"{CONFIG_MAPS}/shared", "apiserver-2")["metadata"]["uid"] == made["metadata"]["uid"]
    versions = {fresh.get("/version", "any")["minor"] for _ in range(40)}
    assert versions == {"36", "37"}  # the port that they share leads to either
    fresh.run("kill", "apiserver-1")
    assert {fresh.get("/version", "any")["minor"] for _ in range(10)} == {"36"}
    assert set(local.states().values()) == {"Ready"}  # the other cluster does not notice


def seen(response: http.client.HTTPResponse, name: str) -> object:
    """The object of that name in a watch."""
    while True:
        event = json.loads(response.readline())
        if event["object"]["metadata"]["name"] == name:
            return event["object"]


# -- versions and gates --------------------------------------------------------------------------------------


def test_everything_goes_up_and_down_in_upstreams_order(local: Local):
    """Servers, controller manager, scheduler, kubelets; down in reverse; gates, data and pods' uids stay."""
    made = local.create(CONFIG_MAPS, config_map("moved"))
    before = len(local.timeline())
    local.run("upgrade", "--to", "1.36")
    up = local.timeline()
    rows = local.components()
    found = {(rows[name]["version"], rows[name]["gates"]) for name in VERSIONED}
    assert found == {("1.36", "DRAExtendedResource=true")}
    assert rows[DRIVER]["version"] == "1.35"
    assert local.get(f"{CONFIG_MAPS}/moved") == made
    assert "at 1.36 already" in local.run("upgrade", "--to", "1.36").stderr
    assert f"use {advised(local.state, 'downgrade')}" in local.refused("upgrade", "--to", "1.35")
    local.run("downgrade", "--to", "1.35")
    down = local.timeline()

    assert started(up[before:]) == ["apiserver", "controller-manager", "scheduler", "kubelet"]
    assert started(down[len(up) :]) == ["kubelet", "scheduler", "controller-manager", "apiserver"]
    assert local.ask("DELETE", f"{CONFIG_MAPS}/moved")[0] == 200


def started(timeline: list[tuple[str, str]]) -> list[str]:
    """The kinds of component in the order of their starts."""
    return list(dict.fromkeys(name.partition("/")[0] for name, what in timeline if what == "started"))


def test_one_component_moves_alone_as_far_as_skew_allows(local: Local):
    """A node may lag behind its server; what upstream does not support needs --force."""
    local.run("downgrade", "--to", "1.34", "--component", "kubelet/node-1")
    assert local.versions() == {**dict.fromkeys(ALL, "1.35"), "kubelet/node-1": "1.34"}
    node = local.get("/api/v1/nodes/node-1")["status"]["nodeInfo"]["kubeletVersion"]
    assert node.startswith("v1.34.")
    local.run("upgrade", "--to", "1.35", "--component", "kubelet/node-1")

    text = local.refused("upgrade", "--to", "1.36", "--component", "scheduler")
    assert "scheduler 1.36 is newer than the API server 1.35" in text
    assert "--force" in text
    local.run("upgrade", "--to", "1.36", "--component", "scheduler", "--force")
    assert local.versions()["scheduler"] == "1.36"
    local.run("downgrade", "--to", "1.35", "--component", "scheduler")


def test_a_driver_restarts_and_is_no_part_of_the_version(local: Local):
    """A driver comes back with its slices, and has neither version nor gates to change."""
    pid = local.components()[DRIVER]["pid"]
    slices = "/apis/resource.k8s.io/v1/resourceslices"
    local.run("kill", DRIVER)
    assert local.states()[DRIVER] == "Killed"
    local.run("restart", DRIVER)
    (found,) = local.get(slices)["items"]
    assert (found["spec"]["nodeName"], len(found["spec"]["devices"])) == ("node-2", 2)
    assert local.components()[DRIVER]["pid"] != pid
    account = "system:serviceaccount:kube-system:gpu.example.com"
    rows = json.loads(local.run("events", "resourceslices.resource.k8s.io", "-o", "json").stdout)
    written = next(row for row in rows if row["verb"] == "create")
    assert (written["user"], written["by"]) == (account, "gpu.example.com 1.35")
    text = local.refused("gates", "DRAAdminAccess=false", "--component", DRIVER)
    assert "driver/gpu.example.com has no Kubernetes version and no feature gates" in text


def test_gates_are_checked_per_component_before_anything_changes(local: Local):
    """Unknown and locked gates name the component; one that the target version lacks stops a move at once."""
    before = local.components()

    assert "scheduler at 1.35: unrecognized feature gate: NoSuch" in local.refused(
        "gates", "NoSuch=true", "--component", "scheduler"
    )
    assert "DynamicResourceAllocation to false, feature is locked to true" in local.refused(
        "gates", "DynamicResourceAllocation=false"
    )
    text = local.refused("downgrade", "--to", "1.33", "--force")
    assert "at 1.33: cannot set feature gate DRAExtendedResource to true" in text
    assert advised(local.state, "gates GATE-") in text
    assert local.components() == before


def test_a_gate_of_one_component(local: Local):
    """A gate flips in one component, which restarts with it, and can be unset again."""
    before = local.components()
    local.run("gates", "DRAExtendedResource-", "--component", "scheduler")
    unset = local.components()
    assert unset["scheduler"]["gates"] == ""
    assert {n: r["pid"] for n, r in unset.items() if n != "scheduler"} == {
        n: r["pid"] for n, r in before.items() if n != "scheduler"
    }
    local.run("gates", "DRAExtendedResource=true")
    after = local.components()
    assert after["apiserver"]["pid"] == before["apiserver"]["pid"]  # had it all along
    assert after["scheduler"]["gates"] == "DRAExtendedResource=true"


# -- restart and kill ----------------------------------------------------------------------------------------


def test_a_restarted_leader_leads_at_once(local: Local):
    """A graceful stop gives the lease back: nobody waits until it would have ended."""
    for component in ("controller-manager", "scheduler"):
        holder = local.get(f"{LEASES}/kube-{component}")["spec"]["holderIdentity"]
        began = time.monotonic()
        local.run("restart", component)
        assert time.monotonic() - began < LEASE_SECONDS
        assert local.get(f"{LEASES}/kube-{component}")["spec"]["holderIdentity"] not in ("", holder)


def test_a_killed_node_leaves_its_neighbours_alone(local: Local):
    """One node of a kubelet process is killed, stays down through other changes, and comes back."""
    before = local.components()
    local.run("kill", "kubelet/node-1")
    assert "does not run" in local.run("kill", "kubelet/node-1").stderr
    states = local.states()
    assert (states["kubelet/node-1"], states["kubelet/node-2"]) == ("Killed", "Ready")
    local.run("restart", "scheduler")
    assert local.states()["kubelet/node-1"] == "Killed"
    local.run("restart", "kubelet/node-1")
    assert local.components()["kubelet/node-2"]["pid"] == before["kubelet/node-2"]["pid"]


def test_all_nodes_of_a_process_are_killed_and_return_one_by_one(local: Local):
    """`kill kubelet` is a SIGKILL of the process; restarting one node does not revive the other."""
    pid = local.components()["kubelet/node-1"]["pid"]
    local.run("kill", "kubelet")
    assert not runs(pid)
    local.run("restart", "kubelet/node-2")
    states = local.states()
    assert (states["kubelet/node-1"], states["kubelet/node-2"]) == ("Killed", "Ready")
    local.run("up")  # brings back everything that is down


def test_components_outlive_their_server(local: Local):
    """With the API server killed, others can be restarted; they wait for it, and all shows afterwards."""
    local.run("kill", "apiserver")
    assert local.states()["apiserver"] == "Killed"
    assert "waits for apiserver, which does not run" in local.run("restart", "kubelet/node-1").stderr
    local.run("restart", "apiserver")
    assert local.timeline()[-5:].count(("kubelet/node-1", "stopped")) == 1


# -- looking -------------------------------------------------------------------------------------------------


def test_events_say_who_wrote_what_at_which_version(local: Local):
    """Each row has revision, verb, object, author with version, user and server; filters narrow it."""
    made = local.create(CONFIG_MAPS, config_map("written"))
    revision = int(made["metadata"]["resourceVersion"])
    rows = json.loads(local.run("events", "--since", str(revision - 1), "configmaps", "-o", "json").stdout)
    row = next(row for row in rows if row["revision"] == revision)

    assert (row["verb"], row["object"]) == ("create", "configmaps default/written")
    assert (row["user"], row["server"]) == ("kubernetes-admin", "1.35")
    assert {row["object"].split()[0] for row in rows} <= {"configmaps", "component"}
    leases = json.loads(local.run("events", "leases.coordination.k8s.io", "-o", "json").stdout)
    assert ("kube-scheduler 1.35", "system:kube-scheduler") in {(r["by"], r["user"]) for r in leases}
    where = f'revision >= {revision} && user == "kubernetes-admin" && verb == "create"'
    chosen = json.loads(local.run("events", "--where", where, "configmaps", "-o", "json").stdout)
    assert chosen == [row]
    table = local.run("events", "--since", str(revision - 1), "configmaps").stdout
    assert table.split("\n")[0].split() == ["REVISION", "TIME", "VERB", "OBJECT", "BY", "USER", "SERVER"]
    assert "configmaps default/written" in table
    local.ask("DELETE", f"{CONFIG_MAPS}/written")


def follow(local: Local, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "kubeskew", "--state-dir", str(local.state), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_followed_events_come_as_they_happen_until_interrupted(local: Local):
    """`events --follow` shows a write made meanwhile; Ctrl-C ends it with success and without a word."""
    with follow(local, "events", "--follow", "-o", "json", "configmaps") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        local.create(CONFIG_MAPS, config_map("followed"))
        assert any(json.loads(line)["object"].endswith("/followed") for line in process.stdout)
        process.send_signal(2)
        assert (process.wait(20), process.stderr.read()) == (0, "")
    local.ask("DELETE", f"{CONFIG_MAPS}/followed")


def test_logs_are_printed_and_followed(local: Local):
    """A component's log, and `-f` until Ctrl-C; an unknown component is named with the known ones."""
    assert "leader" in local.run("logs", "scheduler").stdout
    assert "node-1" in local.run("logs", "kubelet/node-1").stdout
    assert "components are: apiserver, controller-manager, scheduler" in local.refused("logs", "etcd")
    with follow(local, "logs", "-f", "scheduler") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.send_signal(2)
        assert (process.wait(20), process.stderr.read()) == (0, "")


def test_a_reader_that_leaves_is_no_failure(local: Local):
    """`kubeskew events | head` ends quietly, with success."""
    for arguments in (["events"], ["events", "--follow"], ["logs", "kubelet/node-1"]):
        with follow(local, *arguments) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.readline()
            process.stdout.close()
            if "--follow" in arguments:
                local.create(CONFIG_MAPS, config_map("unread"))
                local.ask("DELETE", f"{CONFIG_MAPS}/unread")
            assert (process.wait(20), process.stderr.read()) == (0, "")


def test_a_changing_command_holds_the_cluster(local: Local):
    """While one command changes the cluster, another is asked to wait."""
    with follow(local, "restart", "scheduler") as process:
        assert process.stderr is not None
        process.stderr.readline()
        process.send_signal(signal.SIGSTOP)  # or it may be done before the other asks
        try:
            refusal = local.refused("restart", "scheduler", code=1)
        finally:
            process.send_signal(signal.SIGCONT)
        assert "another kubeskew command is changing the cluster" in refusal
        assert process.wait(40) == 0
        eventually(lambda: local.states()["scheduler"] == "Ready")
