"""The pytest plugin of kubeskew, active once that is installed: the fixture `kubeskew_cluster`.

    @pytest.mark.kubeskew(versions="1.34..1.36")
    def test_the_operator_survives_an_upgrade(kubeskew_cluster):
        kubeskew_cluster.client.create(...)
        kubeskew_cluster.upgrade()

The cluster is imported only if a test uses it.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from kubeskew.testing.kubectl import INI, OPTION

if TYPE_CHECKING:
    from kubeskew.testing.pool import Pool
    from kubeskew.testing.running_cluster import RunningCluster

_CLUSTER, _VERSION = "kubeskew_cluster", "_kubeskew_version"
_LAST_EVENTS = 25
_RENEWED = "leases."  # renewed every few seconds by every component

_running = pytest.StashKey["RunningCluster"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    what = "The kubectl that cluster.kubectl() runs [default: $KUBECTL, or the one on the PATH]."
    parser.getgroup("kubeskew").addoption(OPTION, default="", metavar="PATH", help=what)
    parser.addini(INI, what, default="")


def pytest_configure(config: pytest.Config) -> None:
    """Makes the marker known for --strict-markers."""
    config.addinivalue_line(
        "markers",
        'kubeskew(versions="1.34..1.37", gates={"NAME": True}, nodes=1, config={…}): '
        "the clusters that a test with the fixture kubeskew_cluster is run on, one after another.",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Multiplies a test over the versions of its marker; tests of a version follow each other."""
    marks = [*metafunc.definition.iter_markers("kubeskew")]
    if not marks:
        return
    from kubeskew.cluster.failures import UserError
    from kubeskew.testing import marker

    try:
        if _VERSION not in metafunc.fixturenames:
            raise UserError(f"the marker kubeskew is of use only with the fixture {_CLUSTER}")
        chosen = marker.versions(marker.arguments(marks))
    except UserError as error:
        failure = pytest.fail.Exception(f"{metafunc.definition.nodeid}: {error}", pytrace=False)
        raise failure from None
    if chosen:
        metafunc.parametrize(_VERSION, chosen, indirect=True, scope="session")


@pytest.fixture(scope="session", name=_VERSION)
def _kubeskew_version(request: pytest.FixtureRequest) -> str:
    """The marker sets the version of this run; empty without one."""
    version: str = getattr(request, "param", "")
    return version


@pytest.fixture(scope="session")
def kubeskew_config() -> Mapping[str, Any]:
    """Every test has this cluster, a cluster file's value; projects override it."""
    return {"nodes": [{"name": "node-1"}]}


@pytest.fixture(scope="session")
def kubeskew_setup() -> "Callable[[RunningCluster], None]":
    """The setup runs once for every new cluster, e.g. to install definitions; projects override it."""
    return lambda _: None


@pytest.fixture(scope="session")
def kubeskew_pool(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> "Iterator[Pool]":
    """Clusters belong to this session, or to this worker of pytest-xdist."""
    from kubeskew.cluster.fork_client import component_processes
    from kubeskew.cluster.skew import UPGRADE_ORDER

    with component_processes(*UPGRADE_ORDER, dependent=True) as processes:
        # while fork servers import for the components
        from kubeskew.apimachinery.clock import SystemClock
        from kubeskew.cluster.platform import Platform
        from kubeskew.testing.event_loop import EventLoop
        from kubeskew.testing.pool import Pool
        from kubeskew.testing.running_cluster import Surroundings

        loop = EventLoop()
        kubectl = request.config.getoption(OPTION) or request.config.getini(INI)
        around = Surroundings(loop, Platform(SystemClock(), processes), kubectl)
        pool = Pool(tmp_path_factory.mktemp("kubeskew", numbered=False), around)
        try:
            yield pool
        finally:
            pool.close()
            loop.close()


@pytest.fixture(name=_CLUSTER)
def kubeskew_cluster(
    request: pytest.FixtureRequest,
    kubeskew_pool: "Pool",
    kubeskew_config: Mapping[str, Any],
    kubeskew_setup: "Callable[[RunningCluster], None]",
    _kubeskew_version: str,
    monkeypatch: pytest.MonkeyPatch,
) -> "Iterator[RunningCluster]":
    """The running cluster has a namespace for this test; $KUBECONFIG names it, too."""
    from kubeskew.cluster.failures import ClusterError, UserError
    from kubeskew.testing import marker

    try:
        given = marker.arguments(request.node.iter_markers("kubeskew"))
        cluster = marker.described(given, kubeskew_config, _kubeskew_version)
        running = kubeskew_pool.acquire(cluster, kubeskew_setup, request.node.name)
    except (ClusterError, UserError) as error:
        pytest.fail(f"kubeskew_cluster: {error}", pytrace=False)
    request.node.stash[_running] = running
    monkeypatch.setenv("KUBECONFIG", str(running.kubeconfig))
    yield running
    del request.node.stash[_running]
    kubeskew_pool.release(running)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the last events of the test's cluster to the report of a failure."""
    report = yield
    running = item.stash.get(_running, None)
    if report.failed and running is not None:
        report.sections.append(("kubeskew cluster", last_events(running)))
    return report


def last_events(running: "RunningCluster") -> str:
    try:
        rows = [row for row in running.events() if not row["object"].startswith(_RENEWED)][-_LAST_EVENTS:]
        versions = ", ".join(f"{name} {version}" for name, version in running.versions.items())
    except Exception as error:  # reports must not fail
        return f"{running.state_dir}: cannot be read: {error}"
    lines = [f"{r['revision']:>6} {r['time'][11:23]} {r['verb']} {r['object']} ({r['by']})" for r in rows]
    return "\n".join([f"{running.state_dir}: {versions}", f"The last {len(rows)} events:", *lines])
