"""Sessions that kubectl 1.36 had with the real machinery of 1.36, had again with ours: custom resources."""

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

VERSION = "1.36"
DATA = DATA / "kubectl"
RECORDED = load(DATA / f"crd.kubectl-{VERSION}.golden.json")

# The recorded server has nothing but definitions; a whole one has autoscalers, too.
KNOWN = {"edit-in-place-of-editor": "kubectl autoscale"}


@pytest.fixture(scope="module")
def replayed(
    unscheduled: Any, find_kubectl: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[Outcome]]:
    """Returns what the commands of each session do now."""
    kubeconfig = unscheduled.kubeconfig.read_text()
    server = yaml.safe_load(kubeconfig)["clusters"][0]["cluster"]["server"]
    replayer = Replayer(find_kubectl(VERSION), kubeconfig, server, tmp_path_factory.mktemp("definitions"))
    with ThreadPoolExecutor(len(RECORDED)) as pool:
        return dict(zip(RECORDED, pool.map(replayer.replay, RECORDED.values()), strict=True))


@pytest.mark.parametrize("name", RECORDED)
def test_a_session_goes_as_recorded(replayed: dict[str, list[Outcome]], name: str):
    """Every command prints and returns what it did against the real server."""
    found = [
        difference
        for difference in differences(RECORDED[name], replayed[name])
        if KNOWN.get(name, "\n") not in str(difference)
    ]

    assert not found
