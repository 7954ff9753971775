"""Metrics are written as Go's client library writes them, with the families of a minor."""

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily

from kubeskew.apimachinery.metrics.exposition import content_type, exposition
from kubeskew.apimachinery.metrics.series import Families, families, hidden
from kubeskew.apimachinery.versions import Version


def text(registry: CollectorRegistry, minor: int) -> str:
    return exposition(registry.collect(), Version(minor)).decode()


def test_the_text_is_gos():
    """Marks of stability, labels by name, series by their labels, bounds by value, numbers without `.0`."""
    registry = CollectorRegistry()
    made = Families(registry, Version(36))
    sizes = made.histograms("apiserver_watch_events_sizes", "Bytes.")
    requests = made.counters("authenticated_user_requests", "Requests.")
    for user in ("other", "admin"):
        requests.at(username=user).inc()
    sizes.at(group="", version="v1", resource="pods").observe(5000)
    made.counters("authorization_attempts_total", "Never asked.")

    lines = text(registry, 36).splitlines()

    assert lines[:7] == [
        "# HELP apiserver_watch_events_sizes [ALPHA] Bytes.",
        "# TYPE apiserver_watch_events_sizes histogram",
        'apiserver_watch_events_sizes_bucket{group="",resource="pods",version="v1",le="1024"} 0',
        'apiserver_watch_events_sizes_bucket{group="",resource="pods",version="v1",le="2048"} 0',
        'apiserver_watch_events_sizes_bucket{group="",resource="pods",version="v1",le="4096"} 0',
        'apiserver_watch_events_sizes_bucket{group="",resource="pods",version="v1",le="8192"} 1',
        'apiserver_watch_events_sizes_bucket{group="",resource="pods",version="v1",le="16384"} 1',
    ]
    assert lines[-4:] == [
        "# HELP authenticated_user_requests [ALPHA] Requests.",
        "# TYPE authenticated_user_requests counter",
        'authenticated_user_requests{username="admin"} 1',
        'authenticated_user_requests{username="other"} 1',
    ]
    assert "+Inf" in lines[10]
    assert "authorization_attempts" not in "".join(lines)


def test_large_numbers_and_odd_labels():
    """Exponents are Go's; quotes, backslashes and line ends are escaped."""
    registry = CollectorRegistry()

    class Odd:
        def collect(self):
            family = CounterMetricFamily("odd", 'a\\b\n"c"', labels=("x",))
            family.add_metric(['a"b\\\n'], 12_345_678.0)
            yield family

    registry.register(Odd())

    assert text(registry, 36).splitlines() == [
        r'# HELP odd_total a\\b\n"c"',
        "# TYPE odd_total counter",
        r'odd_total{x="a\"b\\\n"} 1.2345678e+07',
    ]


@pytest.mark.parametrize(("minor", "labels"), [(34, 'resource="pods"'), (35, 'group="",resource="pods"')])
def test_labels_are_those_of_the_minor(minor, labels):
    """Families got a label for the group in 1.35."""
    registry = CollectorRegistry()
    made = Families(registry, Version(minor))
    made.counters("apiserver_init_events_total", "x").at(group="", resource="pods").inc()

    assert f"apiserver_init_events_total{{{labels}}} 1" in text(registry, minor)


@pytest.mark.parametrize(("minor", "mark"), [(34, "[STABLE]"), (35, "[STABLE] (Deprecated since 1.34.0)")])
def test_deprecated_families_are_marked(minor, mark):
    """A stable family that is deprecated is shown for three minors, with a word about it."""
    registry = CollectorRegistry()
    Families(registry, Version(minor)).gauges("apiserver_storage_objects", "x").at(resource="pods")

    assert f"# HELP apiserver_storage_objects {mark} x" in text(registry, minor)
    assert "apiserver_storage_objects" not in families(37)


def test_what_a_minor_lacks_or_hides_is_not_shown():
    """A family of a later minor, and one that was deprecated long ago."""
    registry = CollectorRegistry()
    made = Families(registry, Version(31))
    made.gauges("apiserver_resource_objects", "x").at(group="", resource="pods")
    made.gauges("apiserver_flowcontrol_request_concurrency_limit", "x").at(priority_level="a")

    assert text(registry, 31) == ""
    assert "apiserver_flowcontrol_request_concurrency_limit" in hidden(31)


@pytest.mark.parametrize(
    ("minor", "ending"), [(30, "utf-8"), (32, "escaping=values"), (36, "escaping=underscores")]
)
def test_media_types(minor, ending):
    """Media types say how names are escaped since 1.31."""
    assert content_type(Version(minor)).endswith(ending)
