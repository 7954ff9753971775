"""Names and order of post-start hooks in health checks, by release (pkg/controlplane, kube-aggregator)."""

import pytest
from server_in_process import Caller, close_server, open_server

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.health_checks import check_names

BOOTSTRAP = "bootstrap-controller"
ROLES = "rbac/bootstrap-roles"
LEASES = "start-kube-apiserver-identity-lease-controller"
NAMESPACES = "start-system-namespaces-controller"
DISCOVERY = "apiservice-discovery-controller"
OPENAPI = "apiservice-openapi-controller"
RANGES = "start-kubernetes-service-cidr-controller"
PEERS = "peer-endpoint-reconciler-controller"
OLD = "start-deprecated-kube-apiserver-identity-lease-garbage-collector"
KNOWN = (BOOTSTRAP, ROLES, LEASES, NAMESPACES, DISCOVERY, OPENAPI, RANGES, PEERS, OLD)


@pytest.mark.parametrize(
    ("minor", "gates", "expected"),
    [
        (26, "", [BOOTSTRAP, ROLES, LEASES, OPENAPI]),
        (27, "", [NAMESPACES, BOOTSTRAP, ROLES, LEASES, OLD, OPENAPI, DISCOVERY]),
        (28, "", [ROLES, NAMESPACES, BOOTSTRAP, LEASES, OLD, OPENAPI, DISCOVERY]),
        (29, "", [ROLES, NAMESPACES, BOOTSTRAP, LEASES, OPENAPI, DISCOVERY]),
        (29, "MultiCIDRServiceAllocator", [ROLES, NAMESPACES, BOOTSTRAP, RANGES, LEASES, OPENAPI, DISCOVERY]),
        (30, "", [ROLES, NAMESPACES, BOOTSTRAP, LEASES, DISCOVERY, OPENAPI]),
        (31, "", [NAMESPACES, LEASES, ROLES, BOOTSTRAP, DISCOVERY, OPENAPI]),
        (35, "", [NAMESPACES, LEASES, ROLES, BOOTSTRAP, RANGES, DISCOVERY, OPENAPI]),
        (36, "", [NAMESPACES, PEERS, LEASES, ROLES, BOOTSTRAP, RANGES, DISCOVERY, OPENAPI]),
    ],
)
def test_hooks_stand_in_the_order_of_the_release(minor: int, gates: str, expected: list[str]):
    """Hooks that came, went, moved or hang on a gate stand where the release's source adds them."""
    switched = dict.fromkeys([gates] if gates else [], True)
    names = check_names(Features.of(FeatureGates(Version(minor), switched)).hooks)
    shown = [name.removeprefix("poststarthook/") for name in names]

    assert [name for name in shown if name in KNOWN] == expected


@pytest.mark.parametrize(("minor", "expected"), [(35, "etcd"), (36, "loopback-serving-certificate")])
async def test_the_loopback_certificate_is_checked_for_liveness(minor: int, expected: str):
    """The third check of liveness is that of the loopback certificate since 1.36; readiness has none."""
    server = await open_server(minor)
    try:
        lines = [
            (await Caller(server).get(f"/{probe}?verbose")).raw.decode() for probe in ("livez", "readyz")
        ]
    finally:
        await close_server(server)

    assert lines[0].splitlines()[2] == f"[+]{expected} ok"
    assert lines[1].splitlines()[2] == "[+]etcd ok"
