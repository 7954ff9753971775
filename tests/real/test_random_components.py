"""Histories for schedulers and controller managers that hack/differential makes, some with real programs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "hack" / "differential"))

from component_runs import ComponentRuns, kind_of
from managed_workloads import workloads
from placements import placements
from schedulers import differences

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("make", [placements, workloads])
def test_a_seed_makes_one_history_of_a_component(make):
    """A seed makes the same steps each time, others make others, and all have moments to compare at."""
    made = [make(seed, 36, {}) for seed in range(40)]

    assert made == [make(seed, 36, {}) for seed in range(40)]
    assert len({json.dumps(each["steps"]) for each in made}) == len(made)
    assert all(any(step.get("waits") for step in each["steps"]) for each in made)


def test_differences_of_states():
    """Values are compared where they are; of lists, what is missing and what there is more."""
    real = {"pods": {"a": {"node": "n0"}}, "events": [{"note": "x"}, {"note": "y"}], "claims": [1, 2]}
    ours = {"pods": {"a": {"node": "n1"}}, "events": [{"note": "y"}, {"note": "z"}], "claims": [2]}

    assert list(differences(real, ours)) == [
        "claims: missing 1",
        'events[].note: expected "x", got "z"',
        'pods.a.node: expected "n0", got "n1"',
    ]
    assert list(differences(real, real)) == []


def test_a_class_of_differences_has_no_names():
    """Differences of other pods, nodes and numbers are of one class."""
    one, other = (
        'pods.pod-1.node: expected "node-2", got null',
        'pods.pod-7.node: expected "node-0", got null',
    )

    assert kind_of([one]) == kind_of([other])
    assert kind_of([one]) != kind_of(["pods.pod-1.nominated: expected null, got 1"])


async def test_what_comes_apart_once_was_a_race():
    """Only a history that comes apart again counts; it shrinks to the steps that matter."""

    class Both:
        def __init__(self):
            self.runs = 0

        async def first_apart(self, sequence, run):
            self.runs += 1
            steps = [step["path"] for step in sequence["steps"]]
            if sequence["name"] == "race":
                return (0, ["x: expected 1, got 2"]) if self.runs == 1 else None
            return (steps.index("/bad"), ["y: expected 1, got 2"]) if "/bad" in steps else None

    def make(seed):
        steps = [{"method": "GET", "path": path} for path in ("/a", "/b", "/bad", "/c")]
        return {"name": "race" if seed == 0 else "apart", "steps": steps}

    runs = ComponentRuns(Both(), make)
    await runs.run(range(3))
    (found,) = runs.found.values()
    await runs.shrink(found)

    assert (runs.done, found.seeds) == (3, [1, 2])
    assert [step["path"] for step in found.sequence["steps"]] == ["/bad"]


@pytest.mark.real
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("command", "seeds"), [("placements", (2, 5)), ("controllers", (1, 9))])
def test_a_sample_comes_out_as_on_real_programs(binaries: Path, command: str, seeds: tuple[int, ...]):
    """Seeds that have come out alike do so again."""
    chosen = [argument for seed in seeds for argument in ("--seed", str(seed))]
    line = [sys.executable, "hack/differential/run", command, "1.36", "--binaries", str(binaries), *chosen]
    done = subprocess.run(line, cwd=ROOT, text=True, capture_output=True, timeout=570)

    assert done.returncode == 0, done.stdout
    assert f"{len(seeds)} histories" in done.stdout
