"""Choosing components and checking a change before it is made."""

import pytest

from kubeskew.apimachinery.versions import Version
from kubeskew.cluster.change_plan import (
    Target,
    changed_gates,
    check_gates,
    check_portable,
    check_steps,
    describe,
    disagreements,
    select,
)
from kubeskew.cluster.config import ClusterSpec, numbered_nodes
from kubeskew.cluster.failures import UserError
from kubeskew.cluster.skew import downgrade_order, upgrade_order
from kubeskew.cluster.state import Process, State


def cluster(version: str = "1.35") -> State:
    """One server, controller manager, scheduler, and two nodes in one kubelet process."""
    state = State(runtime_config={}, nodes={"a": {}, "b": {}})
    for name in ("apiserver", "controller-manager", "scheduler"):
        state.processes[name] = Process(name, name, version, {})
    state.processes["kubelet-1"] = Process("kubelet-1", "kubelet", version, {}, nodes=["a", "b"])
    return state


def test_nothing_named_means_everything():
    """Without names, every component is chosen."""
    assert select(cluster(), []) == ["apiserver", "controller-manager", "scheduler", "kubelet/a", "kubelet/b"]


def test_a_kind_means_all_of_it():
    """`kubelet` chooses every node's kubelet, once."""
    assert select(cluster(), ["kubelet", "kubelet/b"]) == ["kubelet/a", "kubelet/b"]


def test_an_unknown_component_is_named_with_the_known_ones():
    """A wrong name is answered with what there is."""
    with pytest.raises(UserError, match=r"no component kubelet/c; components are: apiserver, .*kubelet/b"):
        select(cluster(), ["kubelet/c"])


def test_one_minor_up_in_order_is_supported():
    """A whole cluster goes up one minor, every step on the way being supported."""
    state = cluster()
    check_steps(state, {name: Target(Version(36), {}) for name in upgrade_order(state.components())})


def test_one_minor_down_in_reverse_is_supported():
    """A whole cluster goes down one minor, every step on the way being supported."""
    state = cluster("1.36")
    check_steps(state, {name: Target(Version(35), {}) for name in downgrade_order(state.components())})


def test_two_minors_at_once_are_refused():
    """Two minors at once would pass a skew that upstream does not support."""
    state = cluster()
    with pytest.raises(UserError, match=r"unsupported version skew on the way: .* Go one minor at a time"):
        check_steps(state, {name: Target(Version(37), {}) for name in upgrade_order(state.components())})


def test_a_scheduler_ahead_of_its_server_is_refused():
    """Upgrading the scheduler alone is refused."""
    with pytest.raises(UserError, match=r"scheduler 1\.36 is newer than the API server 1\.35"):
        check_steps(cluster(), {"scheduler": Target(Version(36), {})})


def test_a_skew_that_is_there_already_does_not_block_its_repair():
    """A forced skew can be mended step by step: only new violations count."""
    state = cluster()
    state.processes["scheduler"].version = "1.36"
    state.processes["controller-manager"].version = "1.36"
    check_steps(state, {"controller-manager": Target(Version(35), {})})


def test_a_gate_that_the_version_does_not_know_names_the_component():
    """A gate that is not there yet at the target version is an error that names the component."""
    with pytest.raises(UserError, match=r"scheduler at 1\.33: .*DRAExtendedResource"):
        check_gates("scheduler", Target(Version(33), {"DRAExtendedResource": True}))


def test_a_misspelt_gate_gets_the_nearest():
    """A gate that no release knows is refused in upstream's words, with the name that was probably meant."""
    said = (
        "scheduler at 1.36: unrecognized feature gate: DRAPriorizedList; did you mean DRAPrioritizedList[?]$"
    )
    with pytest.raises(UserError, match=said):
        check_gates("scheduler", Target(Version(36), {"DRAPriorizedList": True}))


def test_a_locked_gate_is_refused():
    """A gate that the target version locks otherwise cannot be carried there."""
    with pytest.raises(UserError, match="locked to true"):
        check_gates("apiserver", Target(Version(37), {"DRAExtendedResource": False}))


@pytest.mark.parametrize(
    ("target", "text"),
    [
        (Target(Version(36), {}), "1.35 → 1.36"),
        (Target(Version(35), {"A": True}), "A=true"),
        (Target(Version(35), {}), "restarting at 1.35"),
    ],
)
def test_progress_says_what_changes(target: Target, text: str):
    """The line of progress shows the version, the gates or the restart."""
    assert describe(Process("scheduler", "scheduler", "1.35", {}), target) == text


def test_gates_are_merged_and_unset():
    """A change sets, overrides or, with None, takes back what was set by hand."""
    assert changed_gates({"A": True, "B": True}, {"A": False, "B": None, "C": True, "D": None}) == {
        "A": False,
        "C": True,
    }


def test_a_gate_that_cannot_be_taken_along_says_how_to_let_go_of_it():
    """A move that a gate forbids names the command that unsets it."""
    with pytest.raises(UserError, match=r"scheduler at 1\.33: .* `kubeskew gates GATE-`"):
        check_portable({"scheduler": Target(Version(33), {"DRAExtendedResource": True})}, {})


@pytest.mark.parametrize(
    ("spec", "given", "said"),
    [
        (ClusterSpec(version=Version(36)), {"version"}, "apiserver is at 1.35, not 1.36"),
        (ClusterSpec(gates={"A": True}), {"gates"}, "scheduler has other feature gates"),
        (ClusterSpec(like="kind"), {"like"}, "it is not like kind"),
        (ClusterSpec(nodes=numbered_nodes(3)), {"count"}, "it has 2 nodes, not 3"),
        (ClusterSpec(nodes=numbered_nodes(2)), {"nodes"}, "its nodes are not those of the file"),
        (ClusterSpec(servers=2), {"servers"}, "it has 1 API servers, not 2"),
        (ClusterSpec(port=7), {"port"}, "its port is 0, not 7"),
        (ClusterSpec(binaries="/a"), {"binaries"}, "its programs are of no folder, not of /a"),
        (ClusterSpec(real=("scheduler",)), {"real"}, "real in it are no components"),
        (
            ClusterSpec(overrides={"scheduler": {"program": {"binary": "/a"}}}),
            {"programs"},
            "its components have other programs than the file",
        ),
    ],
)
def test_what_differs_from_the_cluster_that_is_there(spec: ClusterSpec, given: set[str], said: str):
    """Only what was given is compared, and each difference is named."""
    assert said in disagreements(cluster(), spec, given)
    assert disagreements(cluster(), spec, ()) == []
