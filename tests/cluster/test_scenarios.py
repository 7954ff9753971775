"""The main job on real processes: the cells pass, and fail where the feature is off."""

import json
import re
from pathlib import Path

import pytest
from asking import Local

from conformance.matrix import bundled

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("scenarios")]

NAME = "kep-5004/upgrade-downgrade"


def test_the_matrix_passes(tmp_path: Path):
    """Upgrade and downgrade disturb no pod with devices, named explicitly or implicitly."""
    done = Local(tmp_path / "state").run("matrix", "--report", str(tmp_path / "report"))
    report = json.loads((tmp_path / "report" / "report.json").read_text())

    assert "2 passed, 0 failed" in done.stdout
    assert [cell["failure"] for cell in report["cells"]] == ["", ""]


def test_a_cell_fails_where_the_feature_is_off(tmp_path: Path):
    """With the gate off the class loses the name it was given, and the report tells who wrote what."""
    text = bundled()[NAME].read_text().replace("DRAExtendedResource: true", "DRAExtendedResource: false")
    text = text.replace("assert: 30s", "assert: 1s")
    text = re.sub(r"    - name: implicit\n.*\n.*\n", "", text)
    (tmp_path / "off.yaml").write_text(text)
    done = Local(tmp_path / "state").run("run", str(tmp_path / "off.yaml"), "-o", "json", code=1)

    [cell] = json.loads(done.stdout)["cells"]
    assert "spec.extendedResourceName: expected 'example.com/gpu', found nothing" in cell["failure"]
    written = [event["object"] for event in cell["steps"][0]["events"]]
    assert "deviceclasses.resource.k8s.io gpu.example.com" in written
