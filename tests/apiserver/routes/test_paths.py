"""The paths that are no resources, as people look at them with `kubectl get --raw`."""

import re

import pytest
from server_in_process import Caller, close_server, open_server

READY_31 = """[+]ping ok
[+]log ok
[+]etcd ok
[+]etcd-readiness ok
[+]informer-sync ok
[+]poststarthook/start-apiserver-admission-initializer ok
[+]poststarthook/generic-apiserver-start-informers ok
[+]poststarthook/priority-and-fairness-config-consumer ok
[+]poststarthook/priority-and-fairness-filter ok
[+]poststarthook/storage-object-count-tracker-hook ok
[+]poststarthook/start-apiextensions-informers ok
[+]poststarthook/start-apiextensions-controllers ok
[+]poststarthook/crd-informer-synced ok
[+]poststarthook/start-system-namespaces-controller ok
[+]poststarthook/start-cluster-authentication-info-controller ok
[+]poststarthook/start-kube-apiserver-identity-lease-controller ok
[+]poststarthook/start-kube-apiserver-identity-lease-garbage-collector ok
[+]poststarthook/start-legacy-token-tracking-controller ok
[+]poststarthook/start-service-ip-repair-controllers ok
[+]poststarthook/rbac/bootstrap-roles ok
[+]poststarthook/scheduling/bootstrap-system-priority-classes ok
[+]poststarthook/priority-and-fairness-config-producer ok
[+]poststarthook/bootstrap-controller ok
[+]poststarthook/aggregator-reload-proxy-client-cert ok
[+]poststarthook/start-kube-aggregator-informers ok
[+]poststarthook/apiservice-status-local-available-controller ok
[+]poststarthook/apiservice-status-remote-available-controller ok
[+]poststarthook/apiservice-registration-controller ok
[+]poststarthook/apiservice-discovery-controller ok
[+]poststarthook/kube-apiserver-autoregistration ok
[+]autoregister-completion ok
[+]poststarthook/apiservice-openapi-controller ok
[+]poststarthook/apiservice-openapiv3-controller ok
[+]shutdown ok
readyz check passed
"""


@pytest.fixture
async def older():
    """A server of 1.31."""
    server = await open_server(31)
    yield Caller(server)
    await close_server(server)


async def test_the_checks_are_reported_one_by_one(older):
    """`/readyz?verbose` of 1.31, as recorded."""
    assert (await older.get("/readyz?verbose")).raw.decode() == READY_31


async def test_checks_can_be_left_out(api):
    """Health checks may be excluded; names of checks that do not exist are reported."""
    lines = (await api.get("/livez?verbose&exclude=etcd&exclude=nope")).raw.decode().splitlines()

    assert "[+]etcd excluded: ok" in lines
    assert lines[-2] == 'warn: some health checks cannot be excluded: no matches for "nope"'
    assert (await api.get("/livez/ping")).raw == b"ok"
    assert (await api.get("/readyz/poststarthook/rbac/bootstrap-roles")).raw == b"ok"


async def test_the_index_lists_every_path(api):
    """Indented, sorted, with each check."""
    raw = (await api.get("/")).raw.decode()

    assert raw.startswith('{\n  "paths": [\n    "/.well-known/openid-configuration",\n    "/api",\n')
    for path in (
        "/apis/",
        "/apis/apps/v1",
        "/healthz/etcd",
        "/readyz/shutdown",
        "/openid/v1/jwks",
        "/version",
    ):
        assert f'    "{path}"' in raw


@pytest.mark.parametrize(("minor", "emulates"), [(30, False), (36, True)])
async def test_the_version_is_for_people(minor, emulates):
    """Indented; releases before 1.33 do not show what they emulate."""
    server = await open_server(minor)
    answer = await Caller(server).get("/version")
    await close_server(server)

    assert answer.raw.decode().startswith(f'{{\n  "major": "1",\n  "minor": "{minor}",\n')
    assert ("emulationMajor" in answer.body) is emulates


async def test_components_are_asked_for_each_time(api):
    """Healthy while somebody renews the lease; nothing is stored."""
    lease = {
        "metadata": {"name": "kube-scheduler"},
        "spec": {
            "holderIdentity": "x",
            "leaseDurationSeconds": 15,
            "renewTime": "2999-01-01T00:00:00.000000Z",
        },
    }
    await api.post("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", lease)

    shown = (
        await api.get("/api/v1/componentstatuses", accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    ).body

    refused = "dial tcp 127.0.0.1:10257: connect: connection refused"
    why = f'Get "https://127.0.0.1:10257/healthz": {refused}'
    assert [row["cells"] for row in shown["rows"]] == [
        ["controller-manager", "Unhealthy", why, ""],
        ["scheduler", "Healthy", "ok", ""],
        ["etcd-0", "Healthy", "ok", ""],
    ]
    one = (await api.get("/api/v1/componentstatuses/etcd-0")).body
    assert one["conditions"] == [{"type": "Healthy", "status": "True", "message": "ok"}]
    selected = (await api.get("/api/v1/componentstatuses?fieldSelector=metadata.name%3Dscheduler")).body
    assert [item["metadata"]["name"] for item in selected["items"]] == ["scheduler"]
    missing = await api.get("/api/v1/componentstatuses/nope")
    assert (missing.status, missing.body["message"]) == (404, 'componentstatus "nope" not found')


async def test_text_is_only_text(api):
    """Go's http.Error shows browsers not to guess; so do the probes."""
    for path in ("/livez", "/nope", "/apis/nope/v1"):
        assert (await api.get(path)).headers["X-Content-Type-Options"] == "nosniff"


async def test_health_as_metrics(api):
    """Each check of each probe."""
    lines = (await api.get("/metrics/slis")).raw.decode().splitlines()

    assert 'kubernetes_healthcheck{name="etcd",type="healthz"} 1' in lines
    assert 'kubernetes_healthcheck{name="shutdown",type="readyz"} 1' in lines


async def test_a_new_cluster_says_since_when_old_tokens_are_watched(api):
    """The config map that upstream's controller of legacy tokens keeps."""
    name = "kube-apiserver-legacy-service-account-token-tracking"
    found = await api.get(f"/api/v1/namespaces/kube-system/configmaps/{name}")

    assert re.fullmatch(r"\d{4}-\d\d-\d\d", found.body["data"]["since"])


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/version", 405),
        ("HEAD", "/version", 405),
        ("PUT", "/api", 405),
        ("DELETE", "/api/v1", 405),
        ("PATCH", "/apis/apps/v1", 405),
        ("POST", "/openid/v1/jwks", 405),
        ("PUT", "/apis", 200),
        ("POST", "/apis/apps", 200),
        ("POST", "/healthz", 200),
        ("POST", "/metrics", 200),
    ],
)
async def test_methods_that_nobody_needs(api, method, path, status):
    """The router's paths take GET alone; the aggregator, health checks and metrics look at no method."""
    answer = await api(method, path)
    assert answer.status == status
    if status == 405:
        assert answer.body["reason"] == "MethodNotAllowed"
        assert answer.body["message"] == "the server does not allow this method on the requested resource"


@pytest.mark.parametrize("path", ["/version/x", "/api/x", "/openid/v1/x"])
async def test_nothing_below_the_routers_paths(api, path):
    """The router says 404 in a Status, where others say it in plain text."""
    answer = await api.get(path)
    assert (answer.status, answer.body["reason"]) == (404, "NotFound")
    assert answer.body["message"] == "the server could not find the requested resource"


HELD = {"{}": 304, "W/{}": 304, '"x", {}': 304, "*": 304, "": 200, '"x"': 200, "unquoted {}": 200}


@pytest.mark.parametrize("header", HELD)
async def test_documents_that_a_client_has(api, header):
    """A document is not sent again to who names its tag, among others or as a weak one."""
    path = "/openapi/v3/apis/apps/v1"
    tag = (await api.get(path)).headers["Etag"]

    assert (await api.get(path, if_none_match=header.format(tag))).status == HELD[header]


async def test_documents_of_openapi_are_named(api):
    """The index is what Go takes for plain text, and a document without a name or group is none."""
    index = await api.get("/openapi/v3")
    absent = [await api.get(f"/openapi/v3/{name}") for name in ("", "apis/nothing", "apis/apps/v2", "logs")]

    assert (index.content_type, index.headers.get("Etag")) == ("text/plain; charset=utf-8", None)
    assert {"api", "apis", "apis/apps", "apis/apps/v1", "version"} <= set(index.body["paths"])
    assert {(answer.status, answer.raw, answer.content_type) for answer in absent} == {(404, b"", "")}


async def test_log_files_are_served_if_the_flag_says_so(api):
    """With --enable-logs-handler a server lists the log files of its machine, of which there are none."""
    server = await open_server(enable_logs_handler=True)
    serving = Caller(server)
    listed, file, moved = [await serving.get(path) for path in ("/logs/", "/logs/x.log", "/logs")]
    document = await serving.get("/openapi/v3/logs")
    paths = (await serving.get("/")).body["paths"]
    await close_server(server)

    assert (listed.status, b"<pre>\n</pre>" in listed.raw) == (200, True)
    assert (file.status, file.raw) == (404, b"404 page not found\n")
    assert (moved.status, moved.headers["Location"]) == (301, "logs/")
    assert list(document.body["paths"]) == ["/logs/", "/logs/{logpath}"]
    assert "/logs" in paths
    assert (await api.get("/logs/")).status == 404
