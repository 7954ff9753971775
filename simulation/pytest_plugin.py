"""A plugin of pytest, which knows it once kubeskew is installed: the fixture `simulated_cluster`.

    def test_the_operator_survives_an_upgrade(simulated_cluster):
        cluster = simulated_cluster(seed=7, version="1.35")

        async def story():
            cluster.start("operator", lambda: my_operator(cluster.kubeconfig))
            await cluster.upgrade("1.36")

        cluster.run(story())

It imports the simulation only where a test asks for it.
"""

import inspect
from collections.abc import Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from kubeskew.simulation.simulated_cluster import SimulatedCluster


_CLUSTER = "simulated_cluster"
_OURS = ("kubeskew.", "asyncio.")  # modules whose frames say nothing to the author of a test
_ADVICE = {
    _CLUSTER: "write a plain function, and hand the coroutine to run() of the cluster",
    "kubeskew_cluster": "its calls are synchronous, so write a plain function",
}


class MakesClusters(Protocol):
    """Makes a simulated cluster of a seed and the keys of a cluster file."""

    def __call__(self, seed: int = 0, **cluster: Any) -> "SimulatedCluster": ...


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Fails a test that is a coroutine where no plugin runs one, with advice."""
    try:
        return (yield)
    except pytest.fail.Exception as failure:
        used = next((name for name in _ADVICE if name in pyfuncitem.fixturenames), "")
        if not used or "async def" not in str(failure) or not inspect.iscoroutinefunction(pyfuncitem.obj):
            raise
        message = f"{used}: this test is a coroutine, which no plugin of pytest here runs: {_ADVICE[used]}"
        raise pytest.fail.Exception(f"{message}; or install pytest-asyncio", pytrace=False) from None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A refusal of the cluster is shown at the test's own lines: the message is sufficient."""
    if call.excinfo is not None and _CLUSTER in getattr(item, "fixturenames", ()):
        from kubeskew.apimachinery.errors import StatusError
        from kubeskew.cluster.failures import ClusterError, UserError

        error = call.excinfo.value
        if isinstance(error, (UserError, ClusterError, StatusError)):
            error.__cause__, error.__suppress_context__ = None, True
            call.excinfo = pytest.ExceptionInfo.from_exception(error.with_traceback(_theirs(call.excinfo.tb)))
    return (yield)


def _theirs(traceback: TracebackType | None) -> TracebackType | None:
    """Leaves out the frames of kubeskew and of asyncio."""
    if traceback is None:
        return None
    rest, frame = _theirs(traceback.tb_next), traceback.tb_frame
    if frame.f_globals.get("__name__", "").startswith(_OURS):
        return rest
    return TracebackType(rest, frame, traceback.tb_lasti, traceback.tb_lineno)


@pytest.fixture
def simulated_cluster() -> MakesClusters:
    """Makes simulated clusters: `simulated_cluster(seed=7, version="1.35", nodes=[{"name": "a"}])`."""
    from kubeskew.simulation.simulated_cluster import SimulatedCluster

    return SimulatedCluster
