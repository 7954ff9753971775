"""Tests the options of `kubeskew fault`: they say what a scenario would."""

import pytest
from click.testing import CliRunner

from kubeskew.cli.commands import faults
from kubeskew.cli.commands.faults import fault


@pytest.mark.parametrize(
    ("arguments", "body"),
    [
        (
            "scheduler --verb get --verb patch --resource pods/status --nth 2 --answer 429 --retry-after 3",
            {
                "verb": ["get", "patch"],
                "resource": "pods/status",
                "nth": 2,
                "answer": 429,
                "retryAfter": 3,
            },
        ),
        ("scheduler --delay 10ms..2s --seed 7", {"delay": {"min": "10ms", "max": "2s"}, "seed": 7}),
        ("scheduler --outage true --id away", {"outage": True, "id": "away"}),
        ("scheduler --outage 5s", {"outage": "5s"}),
        ("scheduler --resource pods --stale true --for 3s", {"resource": "pods", "stale": True, "for": "3s"}),
        ("scheduler --lost-lease", {"lostLease": True}),
        ("set scheduler --crash after", {"crash": "after"}),
        ("scheduler --drop answer --probability 0.5", {"drop": "answer", "probability": 0.5}),
    ],
)
def test_options_are_the_keys_of_a_fault(monkeypatch, tmp_path, arguments, body):
    """A component in the place of a command sets a fault, whose keys are the flags that were given."""
    found = []

    class Recorded:
        def __init__(self, cluster):
            pass

        def set(self, given):
            found.append(given)
            return ["id"]

    monkeypatch.setattr(faults, "change", lambda directory, work: work(None))
    monkeypatch.setattr("kubeskew.cluster.faults.ClusterFaults", Recorded)
    result = CliRunner().invoke(fault, arguments.split(), obj=tmp_path)

    assert (result.exit_code, result.output) == (0, "id\n")
    assert found == [{"component": "scheduler", **body}]
