"""The tool that counts the modules of a create, hack/checks/pod_path.py."""

import importlib.util
import sys
import threading
from pathlib import Path
from types import ModuleType

TOOL = Path(__file__).parents[2] / "hack/checks/pod_path.py"


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pod_path", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_the_path_of_a_pod_runs_from_the_socket_to_the_log_and_back():
    """The trace begins at the socket, and has what a create passes until it is in the database."""
    pod_path = tool()
    tracer = pod_path.Tracer()
    profilers = sys.getprofile(), threading.getprofile()
    threading.setprofile(tracer)
    sys.setprofile(tracer)
    try:
        path = [*await pod_path.path_of_a_create(tracer)]
    finally:
        sys.setprofile(profilers[0])
        threading.setprofile(profilers[1])
    names = [module.removeprefix("kubeskew.apiserver.") for module in path]
    assert names[0] == "http.connection"
    order = ["authorization.rbac", "handlers.create", "registry.generic.create", "storage.sqlite.database"]
    assert [name for name in names if name in order] == order
