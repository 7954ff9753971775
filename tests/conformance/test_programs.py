"""Real programs in the slots: how their processes and starts name them, and what cannot be done to them."""

from dataclasses import dataclass
from typing import Any

import pytest

from kubeskew.apimachinery.faults.syntax import read
from kubeskew.cluster.state import RunningProgram
from kubeskew.conformance import programs
from kubeskew.conformance.errors import ImpossibleError
from kubeskew.conformance.programs import Programs


@dataclass
class Slot:
    """A process of a cluster's record, as far as this matters."""

    kind: str
    program: RunningProgram | None
    bugs: dict[str, bool]


SCHEDULER = RunningProgram("/builds/1.36/kube-scheduler", "v1.36.3")


def slot(kind: str = "scheduler", program: RunningProgram | None = None, **bugs: bool) -> Any:
    return Slot(kind, program, bugs)


@pytest.mark.parametrize(
    ("detail", "name"),
    [
        ("kube-scheduler v1.36.3, /builds/1.36/kube-scheduler", "kube-scheduler v1.36.3"),
        ("kube-scheduler v0.0.0-master+$Format$, /b/p", "kube-scheduler v0.0.0-master+$Format$"),
        ("", ""),
        ("dra-example-kubeletplugin , /b/dra-example-kubeletplugin", "dra-example-kubeletplugin"),
        ("exit status 1", ""),
    ],
)
def test_a_start_announces_its_program(detail, name):
    """The time line has name and version of a real program; emulated components announce none."""
    assert programs.announced(detail) == name


def test_an_emulated_component_can_do_everything():
    """Neither bugs nor switches are refused where no real program runs."""
    emulated = [slot(), slot("controller-manager")]
    programs.check_emulated(emulated, "no")
    programs.check_bugs([slot(**{"k8s-134773": True})])
    assert programs.program_of(emulated[0]) == ""


def test_a_real_program_has_no_switches():
    """The reason names the program and its version."""
    with pytest.raises(ImpossibleError, match=r"^kube-scheduler v1\.36\.3 runs here, and it does not$"):
        programs.check_emulated([slot(), slot(program=SCHEDULER)], "it does not")


@pytest.mark.parametrize(("kind", "refused"), [("scheduler", False), ("controller-manager", True)])
def test_bugs_of_a_real_program_are_its_own(kind, refused):
    """A switched bug keeps a cell from a real program of its component, and from no other."""
    processes = [slot(kind, SCHEDULER, **{"k8s-133313": True})]
    if not refused:
        programs.check_bugs(processes)
        return
    with pytest.raises(ImpossibleError, match="no switch of ours changes its bug k8s-133313"):
        programs.check_bugs(processes)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"component": "scheduler", "verb": "update", "resource": "pods", "answer": 409}, ""),
        ({"component": "scheduler", "outage": True}, ""),
        (
            {"component": "kubelet/n", "verb": "NodePrepareResources", "drop": "request"},
            "its calls of drivers",
        ),
        ({"component": "apiserver", "verb": "update", "resource": "pods", "crash": "before"}, "to its store"),
    ],
)
def test_a_proxy_makes_most_faults(fault, reason):
    """Only what a program does elsewhere than at the API server is out of a proxy's reach."""
    if not reason:
        programs.check_fault([slot(program=SCHEDULER)], read(fault))
        return
    with pytest.raises(ImpossibleError, match=reason):
        programs.check_fault([slot(program=SCHEDULER)], read(fault))


def test_a_digest_is_of_what_the_programs_are(tmp_path):
    """It is the same wherever the folder is, and changes with a program of these slots, not with another."""
    digests = {}
    for name in ("a", "b"):
        (tmp_path / name / "1.36").mkdir(parents=True)
        (tmp_path / name / "1.36" / "kube-scheduler").write_text("build 1")
        digests[name] = Programs(str(tmp_path / name), ("scheduler",)).digest()
    assert digests["a"] == digests["b"]

    (tmp_path / "a" / "1.36" / "kube-controller-manager").write_text("build 1")
    assert Programs(str(tmp_path / "a"), ("scheduler",)).digest() == digests["a"]
    (tmp_path / "a" / "1.36" / "kube-scheduler").write_text("build 2")
    assert Programs(str(tmp_path / "a"), ("scheduler",)).digest() != digests["a"]
    assert Programs(str(tmp_path / "b"), ("scheduler",), both_ways=True).digest() != digests["b"]
