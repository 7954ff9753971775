"""The checks that look behind the API, on real processes: metrics, logs, prepared claims."""

import json
from pathlib import Path
from typing import Any

import pytest
from asking import Local

DATA = Path(__file__).parents[1] / "data"


@pytest.mark.slow
@pytest.mark.cluster
def test_scenarios_look_behind_the_api(tmp_path: Path):
    """Prepared claims, histograms and lines of logs are found; a deleted pod is disturbed."""
    done = Local(tmp_path / "state").run("run", str(DATA / "scenario-checks.yaml"), "-o", "json", code=1)
    [cell] = json.loads(done.stdout)["cells"]

    failures = {step["name"]: step["why"] for step in cell["steps"] if step["result"] != "passed"}
    assert list(failures) == ["an unprepare disturbs"]
    assert "Pod checks/a undisturbed; found it is gone, to be deleted as kubeskew " in str(failures)
    assert "deleted by kubelet/node 1.35 at revision " in str(failures)


@pytest.mark.cluster
@pytest.mark.xdist_group("cluster")
def test_scenarios_wait_on_any_cluster(cluster: Any):
    """Lists, reads and watches are enough to wait on a cluster of which only a kubeconfig is known."""
    arguments = ("--kubeconfig", str(cluster.kubeconfig), "-o", "json")
    done = cluster.run("run", str(DATA / "scenario-anywhere.yaml"), *arguments, check=False)
    [cell] = json.loads(done.stdout)["cells"]

    assert [(step["name"], step["result"], step["why"]) for step in cell["steps"]] == [
        ("a deployment comes up and goes", "passed", ""),
        (
            "what does not come is named",
            "failed",
            "assert: expected a ConfigMap as asserted; found no ConfigMap at all",
        ),
    ]
