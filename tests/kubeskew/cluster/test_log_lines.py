"""Lines of logs in three forms: ours, and klog's text and JSON as kube-scheduler 1.36.3 writes them."""

import time
from datetime import UTC, datetime

import pytest

from kubeskew.cluster.log_lines import as_text, time_of
from kubeskew.cluster.processes import interleaved_logs

NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)
TEXT = 'I1231 23:59:59.123456   32745 dynamicresources.go:879] "pod unschedulable" pod="ns/a"'
JSON = '{"ts":1767225599500.4,"caller":"s/s.go:300","msg":"m","v":5,"pod":{"name":"a","namespace":"ns"}}'


@pytest.fixture(autouse=True)
def in_utc(monkeypatch):
    """Programs write the time of the machine's zone."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("line", "moment"),
    [
        ("2026-01-01T00:00:01.000Z I a: one", "2026-01-01T00:00:01.000Z"),
        (TEXT, "2025-12-31T23:59:59.123Z"),
        ("E0101 00:59:58.000999       1 run.go:72] failed", "2026-01-01T00:59:58.000Z"),
        ("I0102 00:00:00.000000       1 run.go:72] in another zone", "2026-01-02T00:00:00.000Z"),
        ("I0228 12:00:00.000000       1 run.go:72] months ago", "2025-02-28T12:00:00.000Z"),
        ("I0230 12:00:00.000000       1 run.go:72] no date", ""),
        (JSON, "2025-12-31T23:59:59.500Z"),
        ('{"ts":"yesterday"}', ""),
        ('{"ts":17672', ""),
        ("goroutine 1 [running]:", ""),
        ("", ""),
    ],
)
def test_lines_of_all_forms_have_times(line, moment):
    """Text has no year, which is the one in which the line is not ahead; other lines have no time."""
    assert time_of(line, NOW) == moment


@pytest.mark.parametrize("moment", ["1764460800123456789", "1e300", "-1e15", '"2026-01-01"', "null"])
def test_a_time_in_another_unit_is_none(moment):
    """A driver's program may have its own form of JSON: its lines stay with the line before them."""
    assert time_of(f'{{"ts":{moment},"msg":"x"}}', NOW) == ""


def test_times_of_text_are_of_the_machines_zone(monkeypatch):
    """Text has the time of the machine, the others that of UTC."""
    monkeypatch.setenv("TZ", "XXX-02:00")
    time.tzset()
    assert time_of("I0101 02:30:00.000000 1 a.go:1] x", NOW) == "2026-01-01T00:30:00.000Z"


POD = '"pod":{"name":"a","namespace":"ns"}'
UNSCHEDULABLE = (
    f'{{"ts":1.5,"logger":"Filter.DynamicResources","caller":"a.go:1","msg":"pod unschedulable",{POD},'
    f'"v":5,{POD},'
    '"node":{"name":"n"},"resourceclaims":[{"name":"<extended-resources>","namespace":"ns"}],"reason":"cannot"}'
)
UNSCHEDULABLE_TEXT = (
    '"pod unschedulable" logger="Filter.DynamicResources" pod="ns/a" node="n" '
    'resourceclaims=["ns/<extended-resources>"] reason="cannot"'
)
FAILED = f'{{"ts":1.5,"logger":"U","caller":"a.go:1","msg":"retrying",{POD},"err":"a \\"b\\""}}'
VALUES = '"count":3,"ok":true,"none":null,"list":["a"],"of":{"x":{"name":1}}'


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (TEXT, TEXT),
        ('{"ts":1.5,"caller":"a.go:1","msg":"FLAG: --v=\\"5\\"","v":1}', r'"FLAG: --v=\"5\""'),
        (UNSCHEDULABLE, UNSCHEDULABLE_TEXT),
        ('{"ts":1.5,"msg":"m","v":0,"at":{"name":1}}', '"m" at={"name":1}'),
        (FAILED, r'"retrying" err="a \"b\"" logger="U" pod="ns/a"'),
        (
            f'{{"ts":1.5,"msg":"m","v":0,{VALUES}}}',
            '"m" count=3 ok=true none=null list=["a"] of={"x":{"name":1}}',
        ),
    ],
)
def test_json_becomes_text(line, text):
    """A line of JSON is what the program would have written as text: references by name, errors first."""
    assert as_text(line) == text


def test_lines_of_several_forms_are_interleaved():
    """The lines of a driver and its controller come in the order of their times, whichever form they have."""
    logs = {"ours": "2025-12-31T23:59:59.400Z I a: two\nmore\n", "text": f"{TEXT}\n", "json": f"{JSON}\n"}
    assert [*interleaved_logs(logs, NOW)] == [
        ("text", TEXT),
        ("ours", "2025-12-31T23:59:59.400Z I a: two"),
        ("ours", "more"),
        ("json", JSON),
    ]
