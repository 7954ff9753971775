"""The checks that look behind the API, on real processes: metrics, logs, prepared claims."""

import json
from pathlib import Path

import pytest
from asking import Local

SCENARIO = Path(__file__).parents[1] / "data" / "scenario-checks.yaml"


@pytest.mark.cluster
def test_scenarios_look_behind_the_api(tmp_path: Path):
    """Prepared claims, histograms and lines of logs are found; a deleted pod is disturbed."""
    done = Local(tmp_path / "state").run("run", str(SCENARIO), "-o", "json", code=1)
    [cell] = json.loads(done.stdout)["cells"]

    failures = {step["name"]: step["why"] for step in cell["steps"] if step["result"] != "passed"}
    assert list(failures) == ["an unprepare disturbs"]
    assert "Pod checks/a undisturbed; found it is gone, to be deleted as kubeskew " in str(failures)
    assert "deleted by kubelet/node 1.35 at revision " in str(failures)
