"""The tool that runs specs of a given e2e.test, hack/e2e/suite.py, with a program that acts as one."""

import importlib.util
import json
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

# Reads its specs from specs.json next to it, writes ginkgo's report, and ends as the spec says.
PROGRAM = """
import json, pathlib, re, sys, time
here = pathlib.Path(__file__).parent
flags = [argument.partition("=")[::2] for argument in sys.argv[1:]]
if ("--version", "") in flags:
    print("v1.36.3")
    sys.exit()
focus = [value for name, value in flags if name == "--ginkgo.focus"]
reports, dry = [], ("--ginkgo.dry-run", "") in flags
for name, state in json.loads((here / "specs.json").read_text()).items():
    spec = {"LeafNodeType": "It", "ContainerHierarchyTexts": ["[sig-x]", ""], "LeafNodeText": name}
    spec["State"] = "skipped"
    if not focus or any(re.search(each, "Kubernetes e2e suite [sig-x] " + name) for each in focus):
        spec["State"] = "passed" if dry else state
        if state == "sleeps" and not dry:
            print("begun", flush=True)
            time.sleep(60)
        if state == "crashes" and not dry:
            sys.exit("signal 11")
        if spec["State"] in ("failed", "skipped"):
            spec["Failure"] = {"Message": "\\n  no pod-41\\nmore"}
    reports.append(spec)
report = next(value for name, value in flags if name == "--ginkgo.json-report")
pathlib.Path(report).write_text(json.dumps([{"SpecReports": reports}]))
"""


def loaded() -> ModuleType:
    """The tool as a module."""
    name = "e2e_suite"
    spec = importlib.util.spec_from_file_location(name, ROOT / "hack" / "e2e" / "suite.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


suite: Any = loaded()


def program(directory: Path, specs: dict[str, str]) -> Path:
    """A program with these specs and how each ends."""
    (directory / "specs.json").write_text(json.dumps(specs))
    path = directory / "e2e.test"
    path.write_text(f"#!{sys.executable}\n{PROGRAM}")
    path.chmod(0o755)
    return path


def run(directory: Path, specs: dict[str, str], *flags: str) -> tuple[int, dict[str, Any]]:
    """The exit status and the written verdicts of one run of the tool."""
    out = directory / "out.json"
    status = suite.main(
        [str(program(directory, specs)), "--kubeconfig", "none", "--timeout", "20", "--out", str(out), *flags]
    )
    return status, json.loads(out.read_text()) if out.exists() else {}


def test_each_spec_gets_its_verdict(tmp_path: Path):
    """A spec passes, fails with its first line, is skipped with the reason, or is lost with the status."""
    specs = {"a": "passed", "b (x) [Slow]": "failed", "c": "skipped", "d [Serial]": "crashes"}
    _, found = run(tmp_path, specs)
    assert found["counts"] == {"passed": 1, "failed": 1, "skipped": 1, "lost": 1}
    assert {each["name"]: (each["state"], each["message"]) for each in found["specs"]} == {
        "[sig-x] a": ("passed", ""),
        "[sig-x] b (x) [Slow]": ("failed", "no pod-N"),
        "[sig-x] c": ("skipped", "no pod-N"),
        "[sig-x] d [Serial]": ("lost", "no report, exit status 1: signal 11"),
    }


def test_a_spec_that_does_not_end_is_lost(tmp_path: Path):
    """A spec is interrupted at its limit, and its output is kept."""
    binary = suite.Binary(program(tmp_path, {"a": "sleeps"}))
    logs = tmp_path / "logs"
    verdict = binary.run(suite.Spec("[sig-x] a"), 0.5, logs, threading.Event())
    assert (verdict.state, verdict.message) == ("lost", "no end within 0.5 s")
    assert [path.name for path in logs.iterdir()] == ["sig-x-a.log"]


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (["--focus", "a"], ["[sig-x] a", "[sig-x] b a"]),
        (["--recorded"], ["[sig-x] b a"]),
        ([], ["[sig-x] a", "[sig-x] b a", "[sig-x] c"]),
    ],
)
def test_specs_are_chosen(tmp_path: Path, flags: list[str], names: list[str]):
    """Specs are those that expressions choose, or those of the record."""
    record = tmp_path / "record.json"
    record.write_text(json.dumps({"passed": ["[sig-x] b a"], "failed": {}, "skipped": []}))
    specs = {"a": "passed", "b a": "passed", "c": "passed"}
    _, found = run(tmp_path, specs, "--expected", str(record), *flags)
    assert [each["name"] for each in found["specs"]] == names


def test_verdicts_are_compared_with_a_record(tmp_path: Path):
    """Only a failure that the record does not explain makes the run fail."""
    record = tmp_path / "record.json"
    record.write_text(
        json.dumps({"passed": ["[sig-x] a"], "failed": {"why": ["[sig-x] b", "[sig-x] c"]}, "skipped": []})
    )
    expected = ("--expected", str(record))
    status, found = run(tmp_path, {"a": "passed", "b": "failed", "c": "passed", "d": "passed"}, *expected)
    assert (status, found["unexpected"], found["mended"]) == (0, [], ["[sig-x] c"])
    status, found = run(tmp_path, {"a": "failed", "b": "failed", "d": "failed"}, *expected)
    assert (status, found["unexpected"]) == (1, ["[sig-x] a", "[sig-x] d"])


def test_a_new_record_keeps_the_reasons(tmp_path: Path):
    """Failures that were explained stay explained, and others wait for their reason with their message."""
    record = tmp_path / "record.json"
    record.write_text(json.dumps({"passed": [], "failed": {"why": ["[sig-x] a"]}, "skipped": []}))
    specs = {"a": "failed", "b": "failed", "c": "passed", "d": "crashes"}
    run(tmp_path, specs, "--record", str(record))
    assert json.loads(record.read_text()) == {
        "release": "1.36.3",
        "runtime": "simulated",
        "passed": ["[sig-x] c"],
        "failed": {"to be explained: no pod-N": ["[sig-x] b"], "why": ["[sig-x] a"]},
        "lost": {"to be explained: no report, exit status 1: signal 11": ["[sig-x] d"]},
        "skipped": [],
    }


def test_a_record_keeps_what_was_not_run(tmp_path: Path):
    """A run of some specs changes nothing about the others."""
    record = tmp_path / "record.json"
    before = {"runtime": "simulated", "passed": ["[sig-x] a", "[sig-x] b"], "skipped": ["[sig-x] s"]}
    before |= {"failed": {"why": ["[sig-x] c", "[sig-x] d"]}, "lost": {"slow": ["[sig-x] e"]}}
    record.write_text(json.dumps(before))
    run(tmp_path, {"a": "failed", "c": "passed"}, "--record", str(record))
    assert json.loads(record.read_text()) == {
        "release": "1.36.3",
        "runtime": "simulated",
        "passed": ["[sig-x] b", "[sig-x] c"],
        "failed": {"to be explained: no pod-N": ["[sig-x] a"], "why": ["[sig-x] d"]},
        "lost": {"slow": ["[sig-x] e"]},
        "skipped": ["[sig-x] s"],
    }


@pytest.mark.parametrize(
    "flags", [["--up=--runtime", "--up=host"], ["--up=--runtime=host"], ["--runtime=host"]]
)
def test_a_record_is_of_one_runtime(tmp_path: Path, flags: list[str], capsys: pytest.CaptureFixture[str]):
    """Failures that are explained for acted containers are not for those that run."""
    record = tmp_path / "record.json"
    record.write_text(json.dumps({"runtime": "simulated", "passed": [], "failed": {"why": ["[sig-x] a"]}}))
    for flag in ("--expected", "--record"):
        assert run(tmp_path, {"a": "failed"}, flag, str(record), *flags) == (2, {})
        assert "is a record of the runtime simulated, not of host" in capsys.readouterr().err
    assert suite.record_path("1.36.3", "host").name == "expected-1.36-host.json"
    assert suite.record_path("1.36.3", "simulated").name == "expected-1.36.json"


@pytest.mark.parametrize("specs", [{}, {"a": "passed"}])
def test_nothing_to_run_is_wrong_usage(tmp_path: Path, specs: dict[str, str], capsys):
    """Expressions that choose no spec are an error, not a success."""
    assert run(tmp_path, specs, "--focus", "nothing") == (2, {})
    assert "no spec is chosen" in capsys.readouterr().err


def test_an_interrupted_spec_says_what_it_waited_for():
    """The failure that follows the interruption is its message, not the interruption."""
    spec = {"LeafNodeType": "It", "LeafNodeText": "a", "State": "interrupted"}
    spec |= {"Failure": {"Message": "Interrupted by User"}}
    spec |= {"AdditionalFailures": [{"State": "failed", "Failure": {"Message": "no pod ran"}}]}
    verdict = suite.verdict_of([{"SpecReports": [spec]}], "a")
    assert (verdict.state, verdict.message) == ("lost", "no pod ran")


def test_those_that_must_be_alone_come_last():
    """Serial specs run one by one after all others."""
    running: list[str] = []
    together: list[int] = []

    def act(spec: Any) -> Any:
        running.append(spec.name)
        together.append(len(running) if spec.serial else 0)
        running.remove(spec.name)
        return suite.Verdict(spec.name, "passed")

    specs = [suite.Spec(f"s{number}", serial=number % 2 == 0) for number in range(10)]
    verdicts = suite.run_all(specs, 4, act, lambda verdict: None)
    assert max(together) == 1
    assert [verdict.name for verdict in verdicts[5:]] == ["s0", "s2", "s4", "s6", "s8"]


def test_the_shipped_record_is_in_order():
    """Every name of the shipped record is in one place, and no failure lacks its reason."""
    for path in sorted((ROOT / "hack" / "e2e").glob("expected-*.json")):
        record = json.loads(path.read_text())
        names = [*record["passed"], *record["skipped"], *suite.reasons_of(record)]
        assert len(names) == len(set(names))
        assert [reason for reason in record["failed"] if reason.startswith("to be explained")] == []
