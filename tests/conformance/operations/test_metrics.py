"""The operation `metric`: values, histograms, changes and absence, of one component or several."""

import pytest
from cell_in_memory import Control, run

from kubeskew.conformance.operations.metrics import Histogram, measure

pytestmark = pytest.mark.looptime

METRICS = """
# TYPE queued gauge
queued{queue="active"} 2
queued{queue="gated"} 1
# TYPE made_total counter
# TYPE tried_total counter
tried_total{result="ok"} 5
tried_total{result="error"} 1
# TYPE took_seconds histogram
took_seconds_bucket{verb="bind",le="0.1"} 2
took_seconds_bucket{verb="bind",le="1"} 6
took_seconds_bucket{verb="bind",le="10"} 10
took_seconds_bucket{verb="bind",le="+Inf"} 10
took_seconds_count{verb="bind"} 10
took_seconds_sum{verb="bind"} 21
took_seconds_bucket{verb="list",le="0.1"} 1
took_seconds_bucket{verb="list",le="1"} 1
took_seconds_bucket{verb="list",le="10"} 1
took_seconds_bucket{verb="list",le="+Inf"} 2
took_seconds_count{verb="list"} 2
took_seconds_sum{verb="list"} 30
"""


async def outcome(body: str, component: str = "component: scheduler") -> str:
    control = Control()
    control.text = METRICS
    step = f"\n  - name: one\n    try: [{{metric: {{{component}, {body}}}}}]\n"
    result = await run(step, control)
    return result.error or result.failure.removeprefix("one: metric: ")


@pytest.mark.parametrize(
    "body",
    [
        "name: queued, value: 3",
        "name: queued, labels: {queue: active}, atLeast: 2, atMost: 2",
        "name: queued, labels: {queue: lost}, value: 0",
        "name: queued, labels: {queue: lost}, absent: true",
        "name: unheard_of, absent: true",
        "name: made_total, value: 0",
        "name: tried_total, since: 4, value: 2",
        "name: tried_total, since: 7, value: 6",  # it began again, as a counter does in another process
        "name: queued, since: 5, value: -2",
        "name: took_seconds_count, labels: {verb: bind}, value: 10",
        'name: took_seconds_bucket, labels: {verb: bind, le: "1"}, value: 6',
        "name: took_seconds, labels: {verb: bind}, count: 10, sum: {atMost: 21}",
        'name: took_seconds, count: 12, buckets: {"0.1": 3, "1": {atLeast: 7}, "+Inf": 12}',
        'name: took_seconds, labels: {verb: bind}, quantiles: {"0.5": {atLeast: 0.7, atMost: 0.8}}',
        'name: took_seconds, labels: {verb: list}, quantiles: {"0.99": 10}',
        "name: took_seconds, labels: {verb: bind}, since: {count: 4, sum: 1, buckets: {}}, count: 6, sum: 20",
    ],
)
async def test_what_components_show_holds(body: str):
    """Series with the labels are added up; histograms are bound by their parts; changes are compared."""
    assert await outcome(body) == ""


@pytest.mark.parametrize(
    ("body", "failure"),
    [
        ("name: queued, value: 4", "expected queued{} of scheduler to have value 4; found 3"),
        ("name: made, atLeast: 1", "expected made{} of scheduler to have atLeast 1; found 0"),
        (
            "name: unheard_of, value: 0",
            "expected unheard_of{} of scheduler to have value 0; found no metric unheard_of",
        ),
        (
            'name: queued, labels: {queue: active}, absent: "yes"',
            'expected no series queued{queue="active"} of scheduler; found 1 series, 2 together',
        ),
        (
            "name: tried_total, since: 4, value: 3",
            "expected tried_total{} of scheduler to have changed by value 3; found 2",
        ),
        (
            'name: took_seconds, count: {atLeast: 13}, quantiles: {"0.5": {atMost: 0.1}}',
            (
                "expected took_seconds{} of scheduler to have count atLeast 13 and quantiles 0.5 atMost 0.1; "
                "found count 12, quantiles 0.5 0.775"
            ),
        ),
        (
            'name: took_seconds, labels: {verb: lost}, quantiles: {"0.5": {atMost: 1}}',
            (
                'expected took_seconds{verb="lost"} of scheduler to have quantiles 0.5 atMost 1; '
                "found quantiles 0.5 nan"
            ),
        ),
    ],
)
async def test_what_differs_is_reported(body: str, failure: str):
    """A failure says what was wanted, and each part that was found otherwise."""
    assert await outcome(body) == failure


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "name: took_seconds, value: 1",
            "took_seconds is a histogram: bound its count, sum, buckets, quantiles",
        ),
        ("name: queued, count: 1", "queued is no histogram, but of type gauge: bound its value"),
        (
            "name: queued, count: {most: 1}",
            "expected a number, or a mapping of numbers to value, atLeast, atMost",
        ),
        ("name: queued, buckets: {half: 1}", "expected numbers as keys, found 'half'"),
        ("name: queued, since: x, value: 1", "since: expected what `outputs` of a metric bound, found 'x'"),
    ],
)
async def test_what_makes_no_sense_is_refused(body: str, message: str):
    """The message says what would be right."""
    assert message in await outcome(body)


async def test_several_components_are_added_up():
    """A list of components is read at once."""
    assert await outcome("name: queued, value: 6", "component: [scheduler, controller-manager]") == ""


async def test_a_reading_is_bound_and_compared_with_later():
    """The change from an earlier reading, of a value and of a histogram."""
    control = Control()
    control.text = METRICS

    async def go_on() -> None:
        control.text = (
            METRICS.replace('tried_total{result="ok"} 5', 'tried_total{result="ok"} 9')
            .replace('_count{verb="list"} 2', '_count{verb="list"} 3')
            .replace('verb="list",le="+Inf"} 2', 'verb="list",le="+Inf"} 3')
        )

    control.changing = go_on
    both = "component: scheduler, name"
    steps = f"""
  - name: one
    try:
    - metric: {{{both}: tried_total, outputs: [{{name: tries, value: (@)}}]}}
    - metric: {{{both}: took_seconds, outputs: [{{name: times, value: (@)}}]}}
    - upgrade: {{to: "1.36"}}
    - metric: {{{both}: tried_total, since: ($tries), value: 4}}
    - metric: {{{both}: took_seconds, since: ($times), count: 1, buckets: {{"10": 0, "+Inf": 1}}}}
"""
    assert (await run(steps, control)).failure == ""


@pytest.mark.parametrize(
    ("share", "value"), [(0.0, 0.0), (0.2, 0.1), (0.4, 0.55), (0.6, 1.0), (0.8, 5.5), (1.0, 10.0)]
)
def test_quantiles_are_linear_within_a_bucket(share: float, value: float):
    """Quantiles are estimated as Prometheus does, linear within a bucket."""
    histogram = measure([METRICS], "took_seconds", {"verb": "bind"}).histogram

    assert histogram is not None
    assert histogram.quantile(share) == pytest.approx(value)


def test_a_histogram_that_began_again_is_all_new():
    """A component that was restarted since the earlier reading has observed all of it since."""
    now, before = Histogram(2, 1.0, {1.0: 2}), Histogram(5, 9.0, {1.0: 3})

    assert now.since(before) == now
    assert before.since(now) == Histogram(3, 8.0, {1.0: 1})
