"""Earlier generations of the resource claim controller stand in folders that can be deleted."""

from pathlib import Path

import pytest

from kubeskew.apimachinery.features import Condition
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import SUPPORTED, Version
from kubeskew.controllers.resourceclaim import generations
from kubeskew.controllers.resourceclaim.controller import ResourceClaimController

ROOT = Path(__file__).parents[3]
PACKAGES = ("apimachinery", "apiserver", "conformance", "controllers", "kubelet", "kubeskew", "simulation")
# Folders of an earlier generation, and what may name their modules besides the table of generations.
ROOMS = {
    "classic": ("controllers/resourceclaim/semantic/", "kubeskew/cli/commands/features.py"),
    "semantic": (),
    "drafted": (),
}


def generations_of(version: Version) -> list[type[ResourceClaimController]]:
    gates = FeatureGates(version)
    return [kind for kind, condition in generations.claim_controllers() if condition.value(gates)]


@pytest.mark.parametrize("room", ROOMS)
def test_nothing_but_the_table_of_designs_names_a_former_design(room: str) -> None:
    """Imports and strings count."""
    module = f"kubeskew.controllers.resourceclaim.{room}"
    named = sorted(
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if module in path.read_text()
    )
    allowed = (f"controllers/resourceclaim/{room}/", "controllers/resourceclaim/generations.py", *ROOMS[room])
    assert [name for name in named if not name.startswith(allowed)] == []


def test_each_release_has_one_design() -> None:
    """Previews have their own, 1.26 to 1.31 the classic one, later releases today's."""
    found = {str(version): [kind.__name__ for kind in generations_of(version)] for version in SUPPORTED}
    classic = {f"1.{minor}": ["ClassicClaimController"] for minor in range(26, 32)}
    today = {f"1.{minor}": ["ResourceClaimController"] for minor in range(32, SUPPORTED[-1].minor + 1)}
    previews = {"1.25+kep3063": ["DraftedClaimController"], "1.29+kep4381": ["SemanticClaimController"]}
    assert found == classic | today | previews


@pytest.mark.parametrize("gone", range(3))
def test_a_generation_that_is_taken_out_leaves_its_releases_to_others(
    gone: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its row every release still has exactly one controller of claims."""
    former: list[tuple[type[ResourceClaimController], Condition]] = [*generations.EARLIER]
    del former[gone]
    monkeypatch.setattr(generations, "EARLIER", tuple(former))
    assert {len(generations_of(version)) for version in SUPPORTED} == {1}
