"""Sessions that kubectl had with a real server of 1.20 and its controllers, had again with ours."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from recorded import DATA
from sessions import Outcome, Replayer, differences, load

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.cluster,
    pytest.mark.xdist_group("sessions"),
    pytest.mark.timeout(600),  # the first test waits for all sessions
]

DATA = DATA / "kubectl"
VERSIONS = ("1.20", "1.32")
RECORDED = {
    version: {
        name: value
        for file in sorted(DATA.glob(f"*.kubectl-{version}.golden.json"))
        for name, value in load(file).items()
    }
    for version in VERSIONS
}
SIDE_BY_SIDE = 4


@pytest.fixture(scope="module", params=[pytest.param("1.20", marks=pytest.mark.slow), "1.32"])
def replayed(
    request: pytest.FixtureRequest,
    unscheduled: Any,
    find_kubectl: Callable[[str], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[str, dict[str, list[Outcome]]]:
    """The version of kubectl, and what the commands of each session do now."""
    version = request.param
    binary = find_kubectl(version)
    kubeconfig = unscheduled.kubeconfig.read_text()
    server = yaml.safe_load(kubeconfig)["clusters"][0]["cluster"]["server"]
    replayer = Replayer(binary, kubeconfig, server, tmp_path_factory.mktemp(f"kubectl-{version}"))
    recorded = RECORDED[version]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        outcomes = pool.map(replayer.replay, recorded.values())
        return version, dict(zip(recorded, outcomes, strict=True))


@pytest.mark.parametrize("name", RECORDED[VERSIONS[0]])
def test_a_session_goes_as_recorded(replayed: tuple[str, dict[str, list[Outcome]]], name: str):
    """Every command prints and returns what it did against the real server."""
    version, outcomes = replayed

    assert not differences(RECORDED[version][name], outcomes[name])
