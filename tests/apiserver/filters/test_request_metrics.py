"""The server counts its requests, as a scraper reads it."""

from kubeskew.apiserver.http.request_info import RequestInfo
from kubeskew.apiserver.metrics import RequestMetrics

GET = RequestInfo(True, "/", "get", "", "v1", "pods", "", "default", "a")
LABELS = (
    'component="apiserver",group="",resource="pods",scope="resource",subresource="",verb="GET",version="v1"'
)


def lines(metrics: RequestMetrics) -> dict[str, float]:
    """Samples by name and sorted labels."""
    found = {}
    for line in metrics.render().decode().splitlines():
        if not line.startswith("#"):
            sample, _, value = line.rpartition(" ")
            name, _, labels = sample.removesuffix("}").partition("{")
            found[f"{name}{{{','.join(sorted(labels.split(',')))}}}"] = float(value)
    return found


def test_requests_are_counted_by_code_and_timed():
    """Buckets are cumulative and go by seconds; a code is a label of the counter alone."""
    metrics = RequestMetrics()
    for code, seconds in ((200, 0.001), (200, 0.005), (404, 0.3), (200, 100.0)):
        metrics.observe(GET, code, seconds)
    found = lines(metrics)

    for code, count in ((200, 3), (404, 1)):
        assert found[f'apiserver_request_total{{code="{code}",{LABELS}}}'] == count
    for bound, count in (("0.005", 2), ("0.2", 2), ("0.4", 3), ("60.0", 3), ("+Inf", 4)):
        labels = LABELS.replace(",resource", f',le="{bound}",resource')
        assert found[f"apiserver_request_duration_seconds_bucket{{{labels}}}"] == count
    assert found[f"apiserver_request_duration_seconds_count{{{LABELS}}}"] == 4


def test_what_nothing_serves_is_counted_together():
    """Clients cannot fill the memory with names that they make up."""
    metrics = RequestMetrics(lambda info: info.resource == "pods" or not info.is_resource)
    for name in ("a", "b", "c"):
        metrics.observe(GET._replace(resource=name), 404, 0.1)

    totals = [name for name in lines(metrics) if name.startswith("apiserver_request_total")]
    assert len(totals) == 1
