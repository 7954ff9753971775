"""The paths that are no resources, as people look at them with `kubectl get --raw`."""

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


async def test_the_checks_are_told_one_by_one(older):
    """`/readyz?verbose` of 1.31, as recorded."""
    assert (await older.get("/readyz?verbose")).raw.decode() == READY_31


async def test_checks_can_be_left_out(api):
    """Those that do not exist are told."""
    told = (await api.get("/livez?verbose&exclude=etcd&exclude=nope")).raw.decode().splitlines()

    assert "[+]etcd excluded: ok" in told
    assert told[-2] == 'warn: some health checks cannot be excluded: no matches for "nope"'
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
    """Indented; releases before 1.33 do not tell what they emulate."""
    server = await open_server(minor)
    answer = await Caller(server).get("/version")
    await close_server(server)

    assert answer.raw.decode().startswith(f'{{\n  "major": "1",\n  "minor": "{minor}",\n')
    assert ("emulationMajor" in answer.body) is emulates
