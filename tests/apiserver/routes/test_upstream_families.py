"""`/metrics` shows upstream's families of the minor, with series, and honest numbers."""

import re

import pytest
from server_in_process import ADMIN, Caller, close_server, open_server

from kubeskew.apimachinery.metrics.series import families

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


async def test_a_fresh_server_shows_upstreams_families():
    """Shows dozens of them, with the labels and bounds of upstream's, and none without series."""
    server = await open_server(reuse=False)
    api = Caller(server, ADMIN)
    await api.get(MAPS)
    shown, known = await scraped(api), families(36)
    await close_server(server)

    assert len(shown) >= 110
    assert "apiserver_flowcontrol_request_wait_duration_seconds" not in shown  # nobody exempt waits
    for name, series in shown.items():
        assert series, name
        if not name.startswith("process_"):
            labels = {label for one in series for label in re.findall(r'(\w+)="', one)}
            assert labels - {"le", "quantile"} == set(known[name].labels), name
            bounds = {float(bound) for one in series for bound in re.findall(r'[{,]le="([^"]+)"', one)}
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
        ("apiserver_request_filter_duration_seconds", '_count{filter="authorization"'),
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


async def test_what_services_are_given_is_counted(api):
    """Addresses and ports are drawn or asked for; what cannot be given is an error, a dry run nothing."""
    path, spec = "/api/v1/namespaces/default/services", {"type": "NodePort", "ports": [{"port": 80}]}
    made = await api.post(path, _service("a", spec))
    address = made.body["spec"]["clusterIP"]
    assert (await api.post(path, _service("b", {**spec, "clusterIP": address}))).status == 422
    assert (await api.post(f"{path}?dryRun=All", _service("c", spec))).status == 201
    after = await scraped(api)

    prefix = "kube_apiserver_clusterip_allocator_allocation"
    cidr = 'cidr="10.96.0.0/16"'
    drawn = f'{prefix}_total{{{cidr},scope="dynamic"}}'
    assert after[f"{prefix}_total"][drawn] == 1
    assert after[f"{prefix}_errors_total"] == {f'{prefix}_errors_total{{{cidr},scope="static"}}': 1}
    count = f"{prefix}_duration_seconds_count{{{cidr}}}"
    assert after[f"{prefix}_duration_seconds"][count] == 1
    ports = "kube_apiserver_nodeport_allocator_allocation_total"
    assert after[ports] == {f'{ports}{{scope="dynamic"}}': 1}


def _service(name, spec):
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


async def test_comparisons_before_updates_are_counted_by_how_they_went(api):
    """Counts changes that managed fields distinguish, and those for which all has to be compared."""
    a = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "1"}}
    await api.post(MAPS, a)
    before = await scraped(api)
    for change in (a, {**a, "data": {"a": "2"}}, {**a, "data": {"b": "2"}}):
        assert (await api.put(f"{MAPS}/a", change)).status == 200
    after = await scraped(api)

    family = "apiserver_request_timestamp_comparison_time"
    for way in ("equal_objects", "unequal_objects_slow", "unequal_objects_fast"):
        series = f'{family}_count{{code_path="{way}"}}'
        assert after[family][series] - before.get(family, {}).get(series, 0) == 1


async def test_verified_tokens_are_counted_by_whether_they_were_remembered(api):
    """A token is verified once; a wrong one is an error."""
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    made = await api.post(
        path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    )
    nobody = Caller(api.server, None)
    for token in (made.body["status"]["token"],) * 3 + ("a.b.c",):
        await nobody.get("/version", authorization=f"Bearer {token}")
    shown = await scraped(api)

    cache = "authentication_token_cache"
    assert shown[f"{cache}_request_total"] == {
        f'{cache}_request_total{{status="hit"}}': 2,
        f'{cache}_request_total{{status="miss"}}': 2,
    }
    assert shown[f"{cache}_fetch_total"] == {
        f'{cache}_fetch_total{{status="error"}}': 1,
        f'{cache}_fetch_total{{status="ok"}}': 1,
    }
    assert set(shown[f"{cache}_active_fetch_count"].values()) == {0}


async def test_the_servers_own_requests_are_counted():
    """Counts what a server makes at its start as requests of its own, as upstream's over loopback are."""
    server = await open_server(reuse=False)
    shown = await scraped(Caller(server, ADMIN))
    await close_server(server)

    own = "apiserver_selfrequest_total"
    assert shown[own][f'{own}{{group="",resource="namespaces",subresource="",verb="POST"}}'] == 4


@pytest.mark.parametrize(("minor", "shown"), [(34, False), (35, True)])
async def test_families_come_with_their_minor(minor, shown):
    """Objects are counted by group and resource since 1.35, and under an older name as well."""
    server = await open_server(minor)
    found = await scraped(Caller(server, ADMIN))
    await close_server(server)

    assert ("apiserver_resource_objects" in found) is shown
    assert "apiserver_storage_objects" in found


async def test_what_is_gone_is_shown_no_more(api):
    """The series of an APIService and of a removed resource end with it."""
    services = "/apis/apiregistration.k8s.io/v1/apiservices"
    spec = {"group": "e.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
    spec["service"] = {"name": "s", "namespace": "default"}
    spec["insecureSkipTLSVerify"] = True
    made = await api.post(services, {"metadata": {"name": "v1.e.example.com"}, "spec": spec})
    assert made.status == 201
    there = 'aggregator_unavailable_apiservice{name="v1.e.example.com"}'
    assert there in (await scraped(api))["aggregator_unavailable_apiservice"]

    await api.delete(f"{services}/v1.e.example.com")
    assert there not in (await scraped(api)).get("aggregator_unavailable_apiservice", {})
