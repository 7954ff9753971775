"""The main job on real processes: the cells pass, and fail where the feature is off."""

import asyncio
import json
import re
from pathlib import Path

import pytest
from asking import Local

from kubeskew.apiserver.storage.projection import digest, fold
from kubeskew.apiserver.storage.records import ComponentEvent, Event, Key, Verb
from kubeskew.apiserver.storage.sql_log import LogReader
from kubeskew.conformance.matrix import bundled

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("scenarios")]

NAME = "kep-5004/upgrade-downgrade"


@pytest.mark.timeout(240)  # some ten clusters' worth of starts, on a machine that may be busy
def test_the_matrix_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Upgrade and downgrade disturb no pod with devices, named explicitly or implicitly; the logs add up."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    done = Local(tmp_path / "state").run(
        "matrix", "--keep", "--report", str(tmp_path / "report"), seconds=200
    )
    report = json.loads((tmp_path / "report" / "report.json").read_text())

    assert "2 passed, 0 failed" in done.stdout
    assert [cell["failure"] for cell in report["cells"]] == ["", ""]
    logs = list(tmp_path.glob("*/data/log.db"))
    assert len(logs) == 2
    for log in logs:
        asyncio.run(check_log(log))


async def check_log(path: Path) -> None:
    """Revisions have no gap, each event continues the state before it, and the fold is the projection."""
    async with await LogReader.open(f"sqlite+aiosqlite:///{path}") as reader:
        events = [event async for event in reader.remaining()]
        projection = await reader.entries()
        timeline = [moment async for moment in reader.events() if isinstance(moment, ComponentEvent)]
    assert [event.revision for event in events] == list(range(2, len(events) + 2))
    states: dict[Key, Event] = {}
    for event in events:
        before = states.pop(event.key, None)
        assert (event.previous, event.previous_value) == (
            (before.revision, before.value) if before else (0, None)
        )
        if event.verb is not Verb.DELETE:
            states[event.key] = event
    assert digest(fold(events).values()) == digest(projection)
    assert {event.author.server_version for event in events} == {"1.35", "1.36"}
    servers = [(moment.what, moment.version) for moment in timeline if moment.component == "apiserver"]
    assert servers == [
        (what, version) for version in ("1.35", "1.36", "1.35") for what in ("started", "stopped")
    ]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_cells_of_all_kinds_come_out_as_recorded(tmp_path: Path):
    """Ten cells of all groups: each step passes, fails as upstream, or is left out as it did before."""
    done = Local(tmp_path / "state").run("matrix", "--profile", "sample", "--compare", seconds=280)

    assert "0 outcomes differ from the record" in done.stdout


def test_a_cell_fails_where_the_feature_is_off(tmp_path: Path):
    """With the gate off the class loses the name it was given, and the report says who wrote what."""
    text = bundled()[NAME].read_text().replace("DRAExtendedResource: true", "DRAExtendedResource: false")
    text = text.replace("assert: 30s", "assert: 1s")
    text = re.sub(r"(?m)^    - name: implicit\n.*\n.*\n", "", text)
    text = re.sub(r"(?m)^    - \{name: (?!1\.35-1\.36).*\n", "", text)  # one cell shows it
    (tmp_path / "off.yaml").write_text(text)
    done = Local(tmp_path / "state").run("run", str(tmp_path / "off.yaml"), "-o", "json", code=1)

    [cell] = json.loads(done.stdout)["cells"]
    assert "spec.extendedResourceName: expected 'example.com/gpu', found nothing" in cell["failure"]
    written = [event["object"] for event in cell["steps"][0]["events"]]
    assert "deviceclasses.resource.k8s.io gpu.example.com" in written
