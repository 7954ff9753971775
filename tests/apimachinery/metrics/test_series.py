"""Counts in plain numbers: what a scraper reads of them is as of the library's own metrics."""

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from kubeskew.apimachinery.metrics.series import Counters, Gauges, Histograms

LABELS = ["name", "result"]
BOUNDS = [0.001, 0.25, 1, 16]


def lines(registry: CollectorRegistry) -> list[str]:
    """Returns what a scraper reads, without the times of creation, which upstream's metrics do not have."""
    text = generate_latest(registry).decode()
    return [line for line in text.splitlines() if "_created" not in line]


def test_counters_are_rendered_as_the_librarys():
    """A counter shows what was added, with `_total` behind its name."""
    own, library = CollectorRegistry(), CollectorRegistry()
    for counter in (
        Counters("adds", "Items.", LABELS, own),
        Counter("adds", "Items.", LABELS, registry=library),
    ):
        counter.labels("a", "ok").inc()
        counter.labels("a", "ok").inc(2)
        counter.labels("b", "failed")

    assert lines(own) == lines(library)
    assert 'adds_total{name="a",result="ok"} 3.0' in lines(own)


def test_gauges_are_rendered_as_the_librarys():
    """A gauge shows the sum of what was added and taken away."""
    own, library = CollectorRegistry(), CollectorRegistry()
    for gauge in (
        Gauges("open", "Watches.", LABELS, own),
        Gauge("open", "Watches.", LABELS, registry=library),
    ):
        gauge.labels("a", "ok").inc(2)
        gauge.labels("a", "ok").inc(-1)

    assert lines(own) == lines(library)
    assert 'open{name="a",result="ok"} 1.0' in lines(own)


@pytest.mark.parametrize("values", [(), (0.001,), (0.0011, 0.25, 3, 17, 16)])
def test_histograms_are_rendered_as_the_librarys(values: tuple[float, ...]):
    """A histogram counts an observation for each bound that it is not above, and sums them up."""
    own, library = CollectorRegistry(), CollectorRegistry()
    for histogram in (
        Histograms("seconds", "Of work.", LABELS, BOUNDS, own),
        Histogram("seconds", "Of work.", LABELS, buckets=BOUNDS, registry=library),
    ):
        series = histogram.labels("a", "ok")
        for value in values:
            series.observe(value)

    assert lines(own) == lines(library)


def test_two_families_of_one_name_are_refused():
    """A registry takes a name once, of these families as of the library's."""
    registry = CollectorRegistry()
    Counters("adds", "Items.", LABELS, registry)
    with pytest.raises(ValueError, match="Duplicated"):
        Counters("adds", "Items.", LABELS, registry)
