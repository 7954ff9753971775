"""The command line without a cluster: help, wrong usage, unreadable files; and what the wheel carries."""

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from asking import Local, advised

from kubeskew.cli.main import COMMANDS, main

ROOT = Path(__file__).parents[2]
NOT_TEXT = b"\xff\xfe\x00\x01"
NEED_A_CLUSTER = {
    "down": [], "status": [], "kubeconfig": [], "logs": ["scheduler"], "upgrade": ["--to", "1.36"],
    "downgrade": ["--to", "1.35"], "gates": ["A=true"], "restart": ["scheduler"], "kill": ["scheduler"],
    "events": [],
}  # fmt: skip


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 2) -> str:
    """Returns what the command line says to wrong usage, on standard error alone."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    output = capsys.readouterr()
    assert (ended.value.code, output.out) == (code, ""), output
    return output.err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str, capsys: pytest.CaptureFixture[str]):
    """`--help` explains a command and shows how it is called."""
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    text = capsys.readouterr().out
    assert ended.value.code == 0
    assert f"\n  kubeskew {command}" in text


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]):
    """`kubeskew --help` lists the commands with one line each."""
    with pytest.raises(SystemExit):
        main(["--help"])
    words = {line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("  ")}
    assert words >= set(COMMANDS)


@pytest.mark.parametrize("command", NEED_A_CLUSTER)
def test_without_a_cluster_it_says_how_to_start_one(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Commands on an empty directory are wrong usage, say what to do, and write nothing."""
    state = tmp_path / "none"
    text = refusal(capsys, "--state-dir", state, command, *NEED_A_CLUSTER[command])
    assert text.count("\n") == 1
    assert f"start one with {advised(state, 'up')}" in text
    assert not state.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["uup"], "no such command 'uup'; did you mean up?; see `kubeskew --help`"),
        (["upgrade"], "missing option '--to'; see `kubeskew upgrade --help`"),
        (["upgrade", "--to", "1.99"], "version 1.99 is not supported: choose one from 1.26 to 1.37"),
        (["up", "--nodes", "-1"], "-1 is not in the range"),
        (["up", "--port", "70000"], "70000 is not in the range"),
        (["up", "--feature-gates", "A"], "feature gates: missing bool value for A"),
        (["up", "--feature-gates", "NoSuch=true"], "apiserver at 1.36: unrecognized feature gate: NoSuch"),
        (["gates", ""], "no gate given"),
        (["gates", "A=maybe"], 'invalid value of A=maybe, err: strconv.ParseBool: parsing "maybe"'),
        (["events", "--since", "x"], "--since x: expected a revision (300), a time"),
        (
            ["events", "--where", "verb =="],
            "--where: does not parse at column 6, where CEL is expected: verb ==",
        ),
        (["scheduler"], "missing option '--kubeconfig'"),
        (["scheduler", "--kubeconfig", "none"], "cannot read kubeconfig none: No such file or directory"),
        (["apiserver", "--storage-url", "x", "--secure-port", "70000"], "70000 is not in the range"),
    ],
)
def test_wrong_usage_is_reported(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Wrong usage ends with 2 and names what is wrong in one line; nothing is written."""
    text = refusal(capsys, "--state-dir", tmp_path / "none", *arguments)
    assert said in text
    assert text.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot read {}: No such file or directory"),
        (NOT_TEXT, "cannot read {}: it is not UTF-8"),
        (b"nodes: [", "{}:2: not YAML: did not find expected node content"),
        (b"ha: 1\nnodez: []", "{}:2: unknown key 'nodez'"),
        (b"components: {scheduler: {version: '1.37'}}", "scheduler 1.37 is newer than the API server 1.36"),
    ],
)
def test_a_cluster_file_that_is_none(
    content: bytes | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """A cluster file that is wrong or missing is reported by its name."""
    file = tmp_path / "cluster.yaml"
    if content is not None:
        file.write_bytes(content)
    text = refusal(capsys, "--state-dir", tmp_path / "none", "up", "--config", file)
    assert said.format(file) in text
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"format": 1}', b'{"format": 2}', NOT_TEXT])
def test_a_broken_record_fails_with_what_to_do(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """A state.json that cannot be read is a failure of every command, not a traceback."""
    (tmp_path / "state.json").write_bytes(content)
    for arguments in (["status"], ["up"], ["kill", "scheduler"], ["down", "--purge"]):
        text = refusal(capsys, "--state-dir", tmp_path, *arguments, code=1)
        assert f"cannot read {tmp_path / 'state.json'}" in text
        assert "remove the directory" in text


def test_what_was_begun_and_never_recorded_can_be_removed(tmp_path: Path):
    """After a crash in the middle of the very first `up`, `down --purge` cleans up what is the cluster's."""
    (tmp_path / "pki").mkdir()
    (tmp_path / "mine").write_text("stays")
    with pytest.raises(SystemExit) as ended:
        main(["--state-dir", str(tmp_path), "down", "--purge"])
    assert ended.value.code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.cluster
def test_a_cluster_that_cannot_start_says_why(tmp_path: Path):
    """A port taken meanwhile and a log that is none are reported in words; the cluster can still be ended."""
    local = Local(tmp_path / "state")
    local.run("up", "--nodes", "0")
    local.run("down")
    ports = {process["name"]: process["port"] for process in local.record()["processes"]}
    with socket.create_server(("127.0.0.1", ports["apiserver"])):
        assert f"another process listens on its port {ports['apiserver']}" in local.run("up", code=1).stderr
    for file in (local.state / "data").iterdir():
        file.write_bytes(b"this is not a database at all" * 100)
    assert "cannot read the log" in local.refused("events", code=1)
    with socket.create_server(("127.0.0.1", ports["scheduler"])):
        text = local.run("up", code=1).stderr
    assert "apiserver cannot run: opening" in text
    assert f"{advised(local.state, 'down')} stops it" in text
    assert local.port("scheduler") != ports["scheduler"]  # nobody depends on it: it moves
    local.run("down", "--purge")
    assert not local.state.exists()


@pytest.mark.people
def test_the_wheel_carries_all_that_is_no_code(tmp_path: Path):
    """Scenarios, report templates, the catalogue's data and migrations are in the wheel as in the tree."""
    tree = tmp_path / "tree"
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package, tree / package, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, tree)
    dist = tmp_path / "dist"
    subprocess.run([sys.executable, "-c", BUILD, dist], cwd=tree, check=True, capture_output=True)
    carried = {str(path.relative_to(dist)) for path in dist.rglob("*") if path.is_file()}

    expected = {
        str(Path("kubeskew", "" if package == "kubeskew" else package, path.relative_to(tree / package)))
        for package in PACKAGES
        for path in (tree / package).rglob("*")
        if path.is_file() and not any(parent.is_symlink() for parent in path.parents)
    }
    assert sorted(expected - carried) == []
    assert {name.partition("/")[0] for name in carried} == {"kubeskew"}  # nothing else in site-packages
    for kind in ("conformance/scenarios/", "conformance/templates/", "apimachinery/data/", "migrations/"):
        assert any(name.startswith(f"kubeskew/{kind}") for name in carried), kind


# The step of building a wheel that gathers its files; it needs no environment of its own and no network.
BUILD = """
import sys, setuptools
setuptools.setup(script_args=["-q", "build_py", "--build-lib", sys.argv[1]])
"""
PACKAGES = {
    "apimachinery", "apiserver", "conformance", "controllers",
    "kubelet", "kubeskew", "metricsserver", "migrations", "scheduler",
}  # fmt: skip


def test_output_is_machine_readable_where_data_is_printed(capsys: pytest.CaptureFixture[str]):
    """Every command that prints data takes `-o json`."""
    for command in ("status", "events", "run", "matrix"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        assert "-o, --output [table|json" in capsys.readouterr().out
