"""Plugins that show themselves by sockets: found, asked, registered, refused, taken off."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc
import pytest
from until import until

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.kubelet.plugins.manager import PluginManager, SocketScan
from kubeskew.kubelet.plugins.plugin_handler import PluginRefusedError
from kubeskew.kubelet.protocols import grpc_calls, registration
from kubeskew.kubelet.protocols.grpc_calls import RpcError


class Handler:
    """Writes down what it is given; refuses what it is asked to refuse."""

    def __init__(self):
        self.calls, self.refuses = [], {}

    def validate(self, name, endpoint, versions):
        if "validate" in self.refuses:
            raise PluginRefusedError(self.refuses["validate"])

    async def register(self, name, endpoint, versions):
        self.calls.append(("register", name, endpoint, list(versions)))
        if "register" in self.refuses:
            raise PluginRefusedError(self.refuses["register"])

    async def deregister(self, name, endpoint):
        self.calls.append(("deregister", name, endpoint))


class Plugin:
    """A plugin's registration socket."""

    def __init__(self, path, name="gpu.example.com", kind="DRAPlugin", endpoint=""):
        self.path, self.notices, self.failures = path, [], 0
        self._info = registration.PluginInfo(
            type=kind, name=name, endpoint=endpoint, supported_versions=["v1.DRAPlugin"]
        )
        self._server = grpc_calls.new_server()
        registration.GET_INFO.serve(self._server, self._get_info)
        registration.NOTIFY.serve(self._server, self._notify)

    async def _get_info(self, request):
        if self.failures:
            self.failures -= 1
            raise RpcError(grpc.StatusCode.INTERNAL, "not yet")
        return self._info

    async def _notify(self, status):
        self.notices.append((status.plugin_registered, status.error))
        return registration.RegistrationStatusResponse()

    async def start(self):
        self._server.listen(self.path)
        await self._server.start()
        return self

    async def stop(self):
        await self._server.stop(None)
        self.path.unlink(missing_ok=True)


@pytest.fixture
def directory():
    with TemporaryDirectory(prefix="ks") as made:
        yield Path(made)


@pytest.fixture
def handler():
    return Handler()


@pytest.fixture
async def manager(directory, handler):
    """One that runs, for plugins of the type DRAPlugin."""
    made = PluginManager(directory, {"DRAPlugin": handler}, SystemClock())
    task = asyncio.create_task(made.run())
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def plugin(directory):
    made = Plugin(directory / "gpu.example.com-reg.sock")
    yield made
    await made.stop()


async def test_a_plugin_is_registered_reported_and_taken_off(manager, handler, plugin):
    """A plugin is asked who it is; the handler gets its name, socket and versions; the plugin goes when its
    socket ends.
    """
    await plugin.start()
    await until(lambda: plugin.notices)
    socket = str(plugin.path)
    assert plugin.notices == [(True, "")]
    assert handler.calls == [("register", "gpu.example.com", socket, ["v1.DRAPlugin"])]
    await plugin.stop()
    await until(lambda: len(handler.calls) == 2)
    assert handler.calls[1] == ("deregister", "gpu.example.com", socket)


async def test_a_plugin_may_serve_at_another_socket(manager, handler, directory):
    """The endpoint it names is what the handler gets."""
    plugin = await Plugin(directory / "reg.sock", endpoint="/plugins/gpu/dra.sock").start()
    await until(lambda: plugin.notices)
    await plugin.stop()
    await until(lambda: len(handler.calls) == 2)
    assert [call[2] for call in handler.calls] == ["/plugins/gpu/dra.sock"] * 2


async def test_a_socket_made_again_is_another_plugin(manager, handler, directory):
    """A restart at the same path, quicker than a look, is a departure and a registration."""
    path = directory / "reg.sock"
    first = await Plugin(path).start()
    await until(lambda: first.notices)
    await first.stop()
    second = await Plugin(path).start()
    await until(lambda: second.notices)
    assert [call[0] for call in handler.calls] == ["register", "deregister", "register"]
    await second.stop()


async def test_an_unknown_type_is_refused(manager, handler, directory):
    """Upstream's words, and nothing is registered."""
    path = directory / "csi.sock"
    plugin = await Plugin(path, kind="CSIPlugin").start()
    await until(lambda: plugin.notices)
    text = f"RegisterPlugin error -- no handler registered for plugin type: CSIPlugin at socket {path}"
    assert (plugin.notices[0], handler.calls) == ((False, text), [])
    await plugin.stop()


@pytest.mark.parametrize(
    ("stage", "text"),
    [
        ("validate", "plugin validation failed with err: no"),
        ("register", "plugin registration failed with err: no"),
    ],
)
async def test_a_refused_plugin_learns_why(manager, handler, plugin, stage, text):
    """A refused plugin is given the step that failed and the handler's reason."""
    handler.refuses[stage] = "no"
    await plugin.start()
    await until(lambda: plugin.notices)
    assert plugin.notices[0] == (False, f"RegisterPlugin error -- {text}")


async def test_a_plugin_that_is_not_ready_yet_is_asked_again(manager, handler, plugin):
    """A failed GetInfo is tried again after half a second."""
    plugin.failures = 1
    await plugin.start()
    await until(lambda: plugin.notices)
    assert plugin.notices == [(True, "")]


async def test_a_handler_that_breaks_is_tried_again(manager, handler, plugin, caplog):
    """With any exception; the fault is reported."""
    working, calls = handler.register, []

    async def register(*args):
        calls.append(args)
        if len(calls) == 1:
            raise ZeroDivisionError
        await working(*args)

    handler.register = register
    await plugin.start()
    await until(lambda: plugin.notices)
    assert plugin.notices == [(True, "")]
    assert "cannot register the plugin" in caplog.text


async def test_only_visible_sockets_count(directory):
    """Files and names with a dot do not; directories are looked into."""
    (directory / "note.txt").touch()
    (directory / "below").mkdir()
    plugins = [Plugin(directory / name) for name in (".hidden.sock", "a.sock", "below/b.sock")]
    for plugin in plugins:
        await plugin.start()
    scan = SocketScan(directory)
    assert [*scan.look()] == [str(directory / "a.sock"), str(directory / "below" / "b.sock")]
    for plugin in plugins:
        await plugin.stop()
    assert [*scan.look()] == []
