"""`/metrics` shows upstream's families of the minor, with series, and honest numbers."""

import re

import pytest
from server_in_process import ADMIN, Caller, close_server, open_server

from kubeskew.apimachinery.metrics.facts import families

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"


def read(text: str) -> dict[str, dict[str, float]]:
    """Series by family, with the values of their labels as they are written."""
    found: dict[str, dict[str, float]] = {}
    for line in text.splitlines():
        if line.startswith("# TYPE"):
            found[name := line.split()[2]] = {}
        elif not line.startswith("#"):
            series, _, value = line.rpartition(" ")
            found[name][series] = float(value)
    return found


async def scraped(api: Caller) -> dict[str, dict[str, float]]:
    response = await api.raw("GET", "/metrics")
    return read(response.body.decode())


async def test_a_fresh_server_shows_upstreams_families(api):
    """Shows dozens of them, with the labels and bounds of upstream's, and none without series."""
    await api.get(MAPS)
    shown, known = await scraped(api), families(36)

    assert len(shown) > 60
    for name, series in shown.items():
        assert series, name
        if not name.startswith("process_"):
            labels = {label for one in series for label in re.findall(r'(\w+)="', one)}
            assert labels - {"le"} == set(known[name].labels), name
            bounds = {float(bound) for one in series for bound in re.findall(r'le="([^"]+)"', one)}
            assert bounds - {float("inf")} == set(known[name].buckets), name


async def test_writes_and_reads_are_counted(api):
    """A write counts in admission, store, flow and events; a list says how much it looked at."""
    await api.post(MAPS, {"metadata": {"name": "a"}, "kind": "ConfigMap", "apiVersion": "v1"})
    before = await scraped(api)
    await api.post(MAPS, {"metadata": {"name": "b"}, "kind": "ConfigMap", "apiVersion": "v1"})
    await api.get(f"{MAPS}?labelSelector=x%3Dy")
    after = await scraped(api)

    def grown(family: str, *labels: str) -> float:
        return sum(
            value - before.get(family, {}).get(series, 0)
            for series, value in after[family].items()
            if all(label in series for label in labels)
        )

    where = ('group=""', 'resource="configmaps"')
    assert grown("etcd_requests_total", 'operation="create"', *where) == 1
    assert grown("apiserver_watch_cache_events_received_total", *where) == 1
    assert grown("apiserver_resource_objects", *where) == 1
    assert grown("apiserver_request_total", 'verb="POST"', 'code="201"', *where) == 1
    assert grown("apiserver_cache_list_fetched_objects_total", *where) == 2
    assert grown("apiserver_cache_list_returned_objects_total", *where) == 0
    steps = "apiserver_admission_step_admission_duration_seconds"
    assert grown(steps, "_count", 'operation="CREATE"', 'rejected="false"', 'type="admit"') == 1
    for family, label in (
        ("apiserver_flowcontrol_request_wait_duration_seconds", "_count"),
        ("apiserver_flowcontrol_work_estimated_seats", "_count"),
        ("authentication_attempts", 'result="success"'),
        ("authorization_attempts_total", 'result="allowed"'),
    ):
        assert grown(family, label) == 3  # with the request for these


async def test_a_refused_write_is_counted_with_its_plugin(api):
    """The plugin that refuses and its step are timed as rejecting."""
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "serviceAccountName": "nobody"},
    }  # fmt: skip
    assert (await api.post(PODS, pod)).status == 403
    shown = await scraped(api)

    counts = {
        series: value
        for family in ("controller", "step")
        for series, value in shown[f"apiserver_admission_{family}_admission_duration_seconds"].items()
        if "_count" in series and 'rejected="true"' in series
    }
    assert list(counts.values()) == [1, 1]
    assert any('name="ServiceAccount"' in series for series in counts)


@pytest.mark.parametrize(("minor", "shown"), [(34, False), (35, True)])
async def test_families_come_with_their_minor(minor, shown):
    """Objects are counted by group and resource since 1.35, and under an older name as well."""
    server = await open_server(minor)
    found = await scraped(Caller(server, ADMIN))
    await close_server(server)

    assert ("apiserver_resource_objects" in found) is shown
    assert "apiserver_storage_objects" in found
