"""Kubelets' pages become points, and points usage, as metrics-server computes it."""

import pytest

from kubeskew.metricsserver.scraper import PageError, decoded
from kubeskew.metricsserver.storage import Batch, Point, Storage, Usage

SECOND = 1_000_000_000
POD = ("default", "web")
PAGE = """\
# HELP node_cpu_usage_seconds_total [STABLE] Cumulative cpu time consumed by the node in core-seconds
# TYPE node_cpu_usage_seconds_total counter
node_cpu_usage_seconds_total 2.5 100000
# TYPE node_memory_working_set_bytes gauge
node_memory_working_set_bytes 1.048576e+06 100000
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="main",namespace="default",pod="web"} 0.25 99500
# TYPE container_memory_working_set_bytes gauge
container_memory_working_set_bytes{container="main",namespace="default",pod="web"} 4096 99500
# TYPE container_start_time_seconds gauge
container_start_time_seconds{container="main",namespace="default",pod="web"} 60.5
# TYPE pod_cpu_usage_seconds_total counter
pod_cpu_usage_seconds_total{namespace="default",pod="web"} 0.25 99500
"""


def test_a_page_is_read():
    """Processor time is in nanoseconds, and each point of the time that the page says."""
    batch = decoded(PAGE, 7, "node-1")

    assert batch.nodes == {"node-1": Point(0, 100 * SECOND, 5 * SECOND // 2, 1 << 20)}
    main = Point(int(60.5 * SECOND), int(99.5 * SECOND), SECOND // 4, 4096)
    assert batch.pods == {POD: {"main": main}}


def test_without_times_points_are_of_the_question():
    """A page that does not say when it measured is of the moment in which it was asked for."""
    page = "node_cpu_usage_seconds_total 2\nnode_memory_working_set_bytes 1\n"
    assert decoded(page, 7, "n").nodes == {"n": Point(0, 7, 2 * SECOND, 1)}


def test_what_is_incomplete_is_left_out():
    """Neither a node without memory nor a pod with a container that has used nothing is reported."""
    page = (
        "node_cpu_usage_seconds_total 2\n"
        'container_cpu_usage_seconds_total{container="a",namespace="n",pod="p"} 0\n'
        'container_memory_working_set_bytes{container="a",namespace="n",pod="p"} 1\n'
    )
    assert decoded(page, 7, "n") == Batch()


def test_what_is_no_page_is_an_error():
    """A page that is not in Prometheus' format says so."""
    with pytest.raises(PageError, match=r"^failed parsing metrics: "):
        decoded("{]", 7, "n")


def batch(at, cpu, *, started=0, memory=100, name="main"):
    """One node and one pod, measured at a second."""
    point = Point(started * SECOND, at * SECOND, int(cpu * SECOND), memory)
    return Batch({"n": point}, {POD: {name: point}})


def stored(*batches):
    storage = Storage(15.0)
    for each in batches:
        storage.store(each)
    return storage


def test_usage_is_a_rate_between_two_points():
    """Half a core was used in the fifteen seconds up to the last point; memory is the last."""
    storage = stored(batch(100, 10), batch(115, 17.5, memory=200))

    half = Usage(SECOND // 2, 200, 115 * SECOND, 15 * SECOND)
    assert storage.node("n") == half
    assert storage.pod(POD).containers == {"main": half}
    assert storage.ready


def test_one_point_is_no_usage():
    """Of one question alone, and of who is not asked about, nothing is known."""
    storage = stored(batch(100, 10))

    assert (storage.node("n"), storage.pod(POD), storage.node("other"), storage.ready) == (
        None,
        None,
        None,
        False,
    )


def test_a_point_that_is_no_newer_changes_nothing():
    """The kubelet answered with what it had measured before: the period stays."""
    storage = stored(batch(100, 10), batch(115, 17.5), batch(115, 17.5))
    assert storage.node("n").window == 15 * SECOND


@pytest.mark.parametrize(
    ("age", "expected"),
    [(5, None), (12, Usage(SECOND // 4, 100, 112 * SECOND, 12 * SECOND)), (20, None)],
)
def test_a_fresh_container_is_measured_from_its_start(age, expected):
    """Nothing is known of one that began less than ten seconds ago, or before the last question."""
    storage = stored(batch(100 + age, age / 4, started=100))
    found = storage.pod(POD)
    assert (found and found.containers["main"]) == expected


def test_a_restarted_container_is_new():
    """Its counter began again, so there is nothing to subtract from."""
    storage = stored(batch(100, 10), batch(115, 0.1, started=110))
    assert storage.pod(POD) is None


def test_a_counter_that_fell_is_skipped():
    """A node whose counter began again has no usage until the next question."""
    storage = stored(batch(100, 10), batch(115, 1))
    assert storage.node("n") is None
    storage.store(batch(130, 2.5))
    assert storage.node("n").cpu == SECOND // 10


def test_a_pod_is_known_with_all_its_containers():
    """One container that is not measured yet hides the pod."""
    both = batch(115, 17.5)
    both.pods[POD]["side"] = both.pods[POD]["main"]
    assert stored(batch(100, 10), both).pod(POD) is None


def test_what_is_gone_is_forgotten():
    """A node that does not answer any more has no usage."""
    assert stored(batch(100, 10), batch(115, 11), Batch()).node("n") is None
