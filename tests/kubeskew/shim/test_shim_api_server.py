"""The shim of an API server: etcd's API over the cluster's log, the time line, and faults in commits."""

import asyncio
import json
import shutil
import socket
import ssl
import sys
from functools import partial
from pathlib import Path

import aiohttp
import click
import pytest
from grpc import aio
from prometheus_client import CollectorRegistry
from until import until

from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.client.timeline_sockets import announce_at, announce_now, take_announcements
from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.apimachinery.environment import Environment, announcement
from kubeskew.apimachinery.faults.journal import PLAN
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.process.component import ComponentContext, ComponentOptions
from kubeskew.apimachinery.process.health_checks import Health
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.storage.etcd.messages import rpc_pb2 as pb
from kubeskew.apiserver.storage.factory import SQLStorage
from kubeskew.apiserver.storage.records import Author, Event, Key, Verb
from kubeskew.cluster.platform import make_runtime_dir
from kubeskew.shim import api_server
from kubeskew.shim.program_file import read_program
from kubeskew.shim.programs import Programs
from kubeskew.shim.supervision import ProgramEndedError

VERSION = Version(36)
CONFIG_MAP = {
    "kind": "ConfigMap",
    "apiVersion": "v1",
    "metadata": {"name": "a", "namespace": "ns", "uid": "u"},
}
KEY = b"/registry/configmaps/ns/a"
FAULT = {"component": "apiserver", "id": "f", "verb": "create", "resource": "configmaps", "crash": "after"}


class ServerShim:
    """A shim of this process around the fake program, over a log in a file."""

    def __init__(self, files, upstream, directory, runtime, ports):
        self.files, self.directory, self.runtime = files, directory, runtime
        self.url = f"sqlite:///{directory / 'log.db'}"
        self.program = directory / "kube-apiserver"
        source = Path(__file__).with_name("fake_program.py").read_text()
        self.program.write_text(f"#!{sys.executable} -IS\n{source}")
        self.program.chmod(0o700)
        self.kubeconfig = directory / "admin.kubeconfig"
        cluster = {"server": upstream.url, "certificate-authority": str(files.ca)}
        self.kubeconfig.write_text(
            json.dumps(
                {
                    "current-context": "c",
                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                    "clusters": [{"name": "c", "cluster": cluster}],
                    "users": [{"name": "u", "user": {"token": "t"}}],
                }
            )
        )
        self.port = ports.choose(())
        self.program_port = ports.choose([self.port])
        self.services: dict[str, str] = {}
        self.stop = asyncio.Event()
        self.killed: list[str] = []
        self.task: asyncio.Task[None] | None = None

    def program_file(self, mode, shared_port):
        serving = [str(self.program_port), str(self.files.certificate), str(self.files.key)]
        body = {
            "path": str(self.program),
            "version": "v1.36.3",
            "health": f"https://127.0.0.1:{self.port}",
            "kubeconfig": "",
            "tlsCertFile": str(self.files.certificate),
            "tlsPrivateKeyFile": str(self.files.key),
            "clientCAFile": str(self.files.ca),
            "processes": [{"args": [mode, "", *serving]}],
            "server": {
                "storage": self.url,
                "etcdSocket": str(self.runtime / "etcd"),
                "timelineSocket": str(self.runtime / "timeline" / "apiserver"),
                "egressSocket": str(self.runtime / "egress"),
                "egressConfig": str(self.directory / "egress.json"),
                "auditPolicy": str(self.directory / "audit-policy.json"),
                "auditConfig": str(self.directory / "audit.kubeconfig"),
                "services": self.services,
                "port": self.port,
                "sharedPort": shared_port,
                "programAddress": f"127.0.0.1:{self.program_port}",
                "requestheaderClientCAFile": str(self.files.front_ca),
                "proxyClientCertFile": str(self.files.proxy_certificate),
                "proxyClientKeyFile": str(self.files.proxy_key),
                "tokenAuthFile": str(self.files.tokens),
            },
        }
        file = self.directory / "program.json"
        file.write_text(json.dumps(body))
        return file

    async def begin(self, mode="health", faults=(), shared_port=0):
        faults_dir = self.directory / "faults"
        faults_dir.mkdir(exist_ok=True)
        (faults_dir / PLAN).write_text(json.dumps({"revision": 1, "faults": list(faults)}))
        program = read_program(self.program_file(mode, shared_port))
        self.programs = Programs(program)
        environment = Environment(VERSION, FeatureGates(VERSION, {}), SystemClock(), SeededEntropy(1))
        self.environment = environment
        self.health = Health(CollectorRegistry(), VERSION)
        options = ComponentOptions(
            self.kubeconfig, VERSION, environment.gates, "127.0.0.1", 0, False, 0, faults_dir
        )
        self.client = APIClient.from_kubeconfig(self.kubeconfig, "x", clock=environment.clock)
        options.machine.kill = self.killed.append
        context = ComponentContext(
            "apiserver", environment, self.client, self.health, self.stop, options, "x"
        )
        self.task = asyncio.create_task(api_server.main(program, program.server, self.programs, context))

    async def until_ready(self):
        await until(lambda: self.task.done() or self.health.failing() == [], 10)
        assert not self.task.done()

    async def timeline(self):
        reader = await SQLStorage().reader(self.url)
        try:
            return [(each.component, each.what, each.detail) for each in await reader.timeline()]
        finally:
            await reader.close()

    async def events(self):
        reader = await SQLStorage().reader(self.url)
        try:
            return [each async for each in reader.events() if isinstance(each, Event)]
        finally:
            await reader.close()

    async def put(self, key=KEY, value=CONFIG_MAP):
        async with aio.insecure_channel(f"unix:{self.runtime / 'etcd'}") as channel:
            put = channel.unary_unary(
                "/etcdserverpb.KV/Put",
                request_serializer=pb.PutRequest.SerializeToString,
                response_deserializer=pb.PutResponse.FromString,
            )
            return (await put(pb.PutRequest(key=key, value=json.dumps(value).encode()))).header.revision

    async def end(self):
        if self.task is not None:
            self.stop.set()
            await asyncio.gather(self.task, return_exceptions=True)
            await self.client.close()


@pytest.fixture
async def shim(files, upstream, tmp_path, ports):
    runtime = Path(make_runtime_dir())
    made = ServerShim(files, upstream, tmp_path, runtime, ports)
    yield made
    await made.end()
    shutil.rmtree(runtime)


async def test_a_server_stores_in_the_log(shim):
    """An object that the program puts through etcd's API is an event of the log. Its writer is the API
    server, with the version that it reports."""
    await shim.begin()
    await shim.until_ready()
    revision = await shim.put()

    (event,) = await shim.events()
    assert (event.revision, event.verb, event.key, event.uid) == (
        *(revision, Verb.CREATE),
        *(Key("configmaps", "ns", "a"), "u"),
    )
    assert event.author == Author("", "kube-apiserver", "1.36", "v1.36.3", "")


async def test_the_time_line_has_the_program(shim):
    """The start is there once the program serves, and names it; the stop is there once the program has
    ended."""
    await shim.begin()
    await shim.until_ready()
    started = ("apiserver", "started", f"kube-apiserver v1.36.3, {shim.program}")
    await until(lambda: _is(shim.timeline(), [started]), 10)
    shim.stop.set()
    await shim.task

    assert await shim.timeline() == [started, ("apiserver", "stopped", "")]
    assert not shim.programs.running


async def _is(coroutine, expected):
    return await coroutine == expected


async def test_other_components_announce_at_its_socket(shim):
    """Announcements of other components are on the time line; what is none is refused."""
    await shim.begin()
    await shim.until_ready()
    directory = shim.runtime / "timeline"
    body = announcement(shim.environment, "scheduler", "started")

    assert await announce_at(directory, body)
    assert await asyncio.to_thread(announce_now, directory, {**body, "what": "crashed"})
    assert not await announce_at(directory, {**body, "component": ""})
    assert [each[:2] for each in await shim.timeline() if each[0] == "scheduler"] == [
        ("scheduler", "started"),
        ("scheduler", "crashed"),
    ]


async def test_nobody_takes_announcements_without_a_shim(tmp_path):
    """Without a directory, a socket, or somebody at it, an announcement is not taken."""
    (tmp_path / "apiserver").touch()
    for directory in (None, tmp_path / "none", tmp_path):
        assert not await announce_at(directory, {})
        assert not announce_now(directory, {})


async def test_a_crash_comes_after_the_commit(shim):
    """The fault ends the process once the n-th write is in the log, and both are on the time line."""
    await shim.begin(faults=[{"set": 1, "fault": FAULT}])
    await shim.until_ready()
    writing = asyncio.create_task(shim.put())
    await until(lambda: shim.killed, 10)

    assert shim.killed == ["f"]
    assert [event.key.name for event in await shim.events()] == ["a"]
    assert [each[1] for each in await shim.timeline()][-2:] == ["fault-fired", "crashed"]
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)


async def test_a_program_that_ends_before_it_serves(shim):
    """The shim ends, too, with the program's exit status."""
    await shim.begin("exit")
    with pytest.raises(ProgramEndedError, match="exit status 3"):
        await shim.task
    assert [each[1] for each in await shim.timeline()] == ["failed"]


async def test_a_killed_shims_sockets_are_replaced(shim):
    """Sockets that are left from a process that was killed are in nobody's way."""
    (shim.runtime / "timeline").mkdir()
    for path in (shim.runtime / "etcd", shim.runtime / "egress", shim.runtime / "timeline" / "apiserver"):
        path.touch()
    await shim.begin()
    await shim.until_ready()

    assert await shim.put() == 2


async def test_the_servers_ports_lead_to_the_program(shim, files, ports):
    """A connection to the server's port, or to that which several share, speaks to the program itself, once
    that serves."""
    shared = ports.choose([shim.port, shim.program_port])
    await shim.begin(shared_port=shared)
    await shim.until_ready()
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=files.ca))
    async with aiohttp.ClientSession(connector=connector) as session:

        async def status(port):
            try:
                async with session.get(f"https://127.0.0.1:{port}/healthz") as response:
                    return response.status, response.headers["Server"][:8]
            except aiohttp.ClientConnectorError:
                return None

        for port in (shim.port, shared):
            assert await until(partial(status, port), 10) == (200, "BaseHTTP")


async def test_services_of_the_log_lead_somewhere(shim, upstream):
    """The program's connections go to where a Service leads, by a file that only its owner can read."""
    shim.services = {"ns/given": f"127.0.0.1:{upstream.port}"}
    await shim.begin()
    await shim.until_ready()
    given = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "given", "namespace": "ns", "uid": "u"},
        "spec": {"clusterIP": "10.96.0.9", "ports": [{"port": 443}]},
    }
    await shim.put(b"/registry/services/specs/ns/given", given)

    config = shim.directory / "egress.json"
    assert config.stat().st_mode & 0o777 == 0o600
    (selection,) = json.loads(config.read_text())["egressSelections"]
    reader, writer = await asyncio.open_unix_connection(
        selection["connection"]["transport"]["uds"]["udsName"]
    )
    writer.write(b"CONNECT 10.96.0.9:443 HTTP/1.1\r\n\r\n")
    assert await reader.readline() == b"HTTP/1.1 200 Connection established\r\n"
    writer.close()


async def test_a_shared_port_that_is_taken_is_an_error(shim, ports):
    """The shim ends in one line if it cannot listen at the shared port, and the program with it."""
    with socket.create_server(("127.0.0.1", ports.choose([shim.port, shim.program_port]))) as held:
        await shim.begin(shared_port=held.getsockname()[1])
        with pytest.raises(click.ClickException, match=r"apiserver cannot run: .*Address already in use"):
            await shim.task
    assert not shim.programs.running


async def test_an_announcement_that_cannot_be_taken_now_may_come_again(tmp_path):
    """A log that cannot be written is no refusal, for which there is no second attempt."""

    async def take(_):
        raise OSError("the log is away")

    server = await take_announcements(tmp_path / "apiserver", take)
    with pytest.raises(OSError, match="unavailable: the log is away"):
        await announce_at(tmp_path, {})
    with pytest.raises(OSError, match="unavailable: the log is away"):
        await asyncio.to_thread(announce_now, tmp_path, {})
    server.close()
