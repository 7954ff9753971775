"""The marker of the pytest plugin, and the kubectl that a suite has."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kubeskew.cluster.failures import UserError
from kubeskew.testing import kubectl, marker

pytest_plugins = ("pytester",)

SUITE = """
import pytest

pytestmark = pytest.mark.kubeskew(nodes=2)


@pytest.mark.kubeskew(versions="1.34..1.36", gates={"DRAExtendedResource": True})
def test_it(kubeskew_cluster): ...


def test_once(kubeskew_cluster): ...
"""


def mark(**arguments: Any) -> Any:
    return SimpleNamespace(args=(), kwargs=arguments)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("1.34..1.37", ["1.34", "1.35", "1.36", "1.37"]),
        ("1.28..1.30", ["1.28", "1.29", "1.30"]),
        ("1.35", ["1.35"]),
        (["1.29+kep4381", "1.33.5"], ["1.29+kep4381", "1.33.5"]),
    ],
)
def test_versions_are_a_range_or_a_list(given: Any, expected: list[str]):
    """A range has every minor in it, without previews; a list has what it says."""
    assert marker.versions({"versions": given}) == expected


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (
            {"version": "1.35"},
            "takes no argument 'version'; known are versions, gates, nodes, config.*versions",
        ),
        ({"versions": "1.35..1.99"}, "version 1.99 is not supported: choose one from 1.26 to 1.37"),
        ({"versions": "1.36..1.35"}, "1.36 is newer than 1.35"),
        ({"versions": "newest"}, "'newest' is not a Kubernetes version"),
        ({"versions": 1.35}, 'expected "1.34..1.37" or a list of texts, found 1.35'),
        ({"versions": []}, 'expected "1.34..1.37" or a list of texts, found \\[\\]'),
        (
            {"gates": {"DRAExtendedResources": True}},
            "no release has .* DRAExtendedResources.*DRAExtendedResource",
        ),
        ({"gates": {"DRAExtendedResource": "yes"}}, 'gates: expected {"NAME": True}'),
        ({"gates": "DRAExtendedResource"}, "gates: .*DRAExtendedResource"),
        (
            {"versions": "1.26", "gates": {"DRAExtendedResource": True}},
            "1.26: featureGates: .*DRAExtendedResource",
        ),
        ({"nodes": "two"}, "nodes: expected a number, or a list"),
        ({"nodes": [{"nmae": "a"}]}, "unknown key 'nmae'.*name"),
        ({"config": {"verison": "1.36"}}, "unknown key 'verison'.*version"),
    ],
)
def test_a_wrong_argument_is_reported_in_a_line(arguments: dict[str, Any], why: str):
    """A cluster that cannot be is refused in one line that says what would be right."""
    with pytest.raises(UserError, match=f"the marker kubeskew.*{why}") as caught:
        marker.arguments([mark(**arguments)])
    assert "\n" not in str(caught.value)


def test_arguments_have_names():
    """A marker whose argument has no name is refused, with the names there are."""
    with pytest.raises(UserError, match="by name alone: versions, gates, nodes, config"):
        marker.arguments([SimpleNamespace(args=("1.35",), kwargs={})])


def test_the_closest_marker_wins():
    """A test's marker goes before its module's, which goes before the settings of the project."""
    given = marker.arguments(
        [mark(versions="1.35", nodes=1), mark(nodes=2, gates="DRAExtendedResource=true")]
    )
    settings = {"nodes": [], "featureGates": {"DRAExtendedResource": False, "DRAAdminAccess": True}}
    cluster = marker.described(given, settings, "1.35")

    assert [node["name"] for node in cluster["nodes"]] == ["node-1"]
    assert cluster["featureGates"] == {"DRAExtendedResource": True, "DRAAdminAccess": True}
    assert cluster["version"] == "1.35"


@pytest.fixture
def alone(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project whose pytest has no plugin but those that are named."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeini("[pytest]")
    return pytester


def collected(alone: pytest.Pytester, suite: str) -> pytest.RunResult:
    alone.makepyfile(suite)
    options = ["-p", "kubeskew.testing.pytest_plugin", "--strict-markers", "--collect-only", "-q"]
    return alone.runpytest_subprocess(*options)


def test_a_test_is_multiplied_over_versions(alone: pytest.Pytester):
    """A test with the marker is there once for each version, one without versions once."""
    done = collected(alone, SUITE)
    names = [line.partition("::")[2] for line in done.outlines if "::" in line]

    assert names == ["test_it[1.34]", "test_it[1.35]", "test_it[1.36]", "test_once"]


@pytest.mark.parametrize(
    ("suite", "why"),
    [
        (
            SUITE.replace("1.34..1.36", "1.34..1.99"),
            "*test_it: the marker kubeskew: versions: version 1.99 is not *",
        ),
        (
            SUITE.replace("test_once(kubeskew_cluster)", "test_once()"),
            "*of use only with the fixture kubeskew_cluster",
        ),
    ],
)
def test_a_wrong_marker_ends_the_collection(alone: pytest.Pytester, suite: str, why: str):
    """pytest names the test and what is wrong with its marker, without a traceback."""
    done = collected(alone, suite)

    assert done.ret == 2
    done.stdout.fnmatch_lines([why])
    done.stdout.no_fnmatch_line("*Traceback*")
    done.stdout.no_fnmatch_line("*another exception*")
    done.stdout.no_fnmatch_line("*marking.py*")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "bin" / "kubectl"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\necho $KUBECONFIG $KUBECACHEDIR $*; cat >&2; exit $1\n")
    path.chmod(0o755)
    return path


def test_kubectl_is_the_one_that_is_asked_for(program: Path, monkeypatch: pytest.MonkeyPatch):
    """An option goes before $KUBECTL, which goes before the PATH; what is not there is reported."""
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.delenv("KUBECTL", raising=False)
    assert kubectl.find("") == program
    assert kubectl.find(str(program)) == program
    monkeypatch.setenv("KUBECTL", "/none/kubectl")
    with pytest.raises(kubectl.KubectlError, match=r"^\$KUBECTL names /none/kubectl, which is no program"):
        kubectl.find("")
    with pytest.raises(kubectl.KubectlError, match=r"^--kubeskew-kubectl or kubeskew_kubectl names /other"):
        kubectl.find("/other")
    monkeypatch.delenv("KUBECTL")
    monkeypatch.setenv("PATH", "/none")
    with pytest.raises(
        kubectl.KubectlError, match="there is no kubectl on the PATH: install it, or name it with"
    ):
        kubectl.find("")


def test_kubectl_returns_its_output_and_raises_on_failure(program: Path):
    """Standard output is returned; a failure has the arguments, the exit code and what was said."""
    there, cache = Path("/there/kubeconfig"), Path("/there/cache")
    assert kubectl.run(program, ["0", "get"], there, cache, None) == "/there/kubeconfig /there/cache 0 get\n"
    with pytest.raises(kubectl.KubectlError, match=r"^`kubectl 3 'a b'` failed with exit code 3: why$"):
        kubectl.run(program, ["3", "a b"], there, cache, "why")
