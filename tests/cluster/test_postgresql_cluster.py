"""A cluster of real processes whose log is in PostgreSQL."""

import http.client
import json
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from asking import CONFIG_MAPS, Local, advised, config_map, eventually
from postgresql_server import PostgreSQLServer

pytestmark = [pytest.mark.cluster, pytest.mark.postgresql, pytest.mark.timeout(300)]


@pytest.fixture
def url(postgresql: PostgreSQLServer) -> str:
    """The URL of a schema that no cluster has used."""
    return postgresql.fresh()


@pytest.fixture
def local(tmp_path: Path, url: str) -> Iterator[Local]:
    """A cluster at 1.35 with two API servers, which share the log."""
    local = Local(tmp_path / "state")
    local.run("up", "--version", "1.35", "--nodes", "1", "--ha", "2", "--storage", url)
    yield local
    if local.state.exists():
        local.run("down", "--purge")


@contextmanager
def held_port(address: str) -> Iterator[int]:
    """A port of an address that nobody has."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((address, 0))
        yield held.getsockname()[1]


class Far(NamedTuple):
    """An API server that the cluster of a state directory has not started."""

    state: Path
    address: str
    port: int

    def _answer(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        tls = ssl.create_default_context(cafile=str(self.state / "ca.crt"))
        connection = http.client.HTTPSConnection(self.address, self.port, context=tls, timeout=30)
        try:
            token = (self.state / "admin.token").read_text().strip()
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            connection.request(method, path, json.dumps(body) if body else None, headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def ready(self) -> bool:
        try:
            return self._answer("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        status, content = self._answer(method, path, body)
        return status, json.loads(content)

    def watched(self, path: str) -> list[tuple[str, str]]:
        """Returns type and name of each event until the watch ends."""
        events = [json.loads(line) for line in self._answer("GET", path)[1].splitlines()]
        return [(event["type"], event["object"]["metadata"]["name"]) for event in events]


def names(local: Local, server: str) -> list[str]:
    items = local.get(CONFIG_MAPS, server)["items"]
    return [item["metadata"]["name"] for item in items if item["metadata"]["name"] != "kube-root-ca.crt"]


def test_what_one_server_has_acknowledged_the_other_serves_after_a_kill(
    local: Local, postgresql: PostgreSQLServer, url: str
):
    """Writes through either server outlive a SIGKILL and an upgrade; the log adds up; `down` removes it."""
    for number in range(20):
        server = f"apiserver-{number % 2 + 1}"
        local.create(CONFIG_MAPS, config_map(f"m{number:02}"), server)
    written = [f"m{number:02}" for number in range(20)]
    local.run("kill", "apiserver-1")
    assert names(local, "apiserver-2") == written
    local.run("restart", "apiserver-1")
    assert names(local, "apiserver-1") == written
    local.run("upgrade", "--to", "1.36")
    assert {*local.versions().values()} == {"1.36"}
    assert names(local, "apiserver-1") == names(local, "apiserver-2") == written
    local.run("replay")
    assert not (local.state / "data" / "log.db").exists()

    at = json.loads(local.run("events", "-o", "json").stdout)[-1]["revision"]
    local.create(CONFIG_MAPS, config_map("later"), "apiserver-2")
    follow = [sys.executable, "-m", "kubeskew", "--state-dir", str(local.state), "events", "--follow"]
    with subprocess.Popen(follow, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as follower:
        assert follower.stdout
        while "configmaps" not in (line := follower.stdout.readline()) or "/later" not in line:
            assert line, "it ended before it had read the log"
        local.run("rewind", "--to", str(at))
        said = follower.communicate(timeout=30)[1]
    assert said.startswith("kubeskew: cannot read the log: ")
    assert said.endswith(" was removed or replaced, as by a rewind\n")
    assert follower.returncode == 1
    local.run("up")
    eventually(lambda: local.ask("GET", f"{CONFIG_MAPS}/later", server="apiserver-1")[0] == 404)
    assert names(local, "apiserver-2") == written

    local.run("down", "--purge")
    schema = url.rpartition("%3D")[2]
    tables = "SELECT count(*) FROM information_schema.tables WHERE table_schema = "
    assert postgresql.sql(f"{tables}'{schema}' OR table_schema LIKE 'kubeskew%'") == ["0"]


def test_an_api_server_of_another_host_shares_the_log(local: Local, tmp_path: Path):
    """A server with an address and a directory of its own, started by hand at another release, serves what
    the others have written, and they what it has; its watches report theirs; SIGTERM ends it."""
    state, there, address = local.state, tmp_path / "there", "127.0.0.2"
    there.mkdir()
    request = ["openssl", "req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=kube-apiserver"]
    sign = ["openssl", "x509", "-req", "-in", "far.csr", "-CA", str(state / "ca.crt"), "-days", "90"]
    sign += ["-CAkey", str(state / "pki" / "ca.key"), "-copy_extensions", "copy", "-out", "far.crt"]
    request += ["-addext", f"subjectAltName=IP:{address}", "-keyout", "far.key", "-out", "far.csr"]
    for command in (request, sign):
        subprocess.run(command, cwd=there, check=True, capture_output=True)
    for name in ("ca.crt", "pki/tokens.csv", "pki/sa.key", "data/storage-url"):
        shutil.copy(state / name, there)
    flags = ["--storage-url-file", "storage-url", "--tls-cert-file", "far.crt", "--client-ca-file", "ca.crt"]
    flags += ["--tls-private-key-file", "far.key", "--token-auth-file", "tokens.csv"]
    flags += ["--service-account-signing-key-file", "sa.key", "--service-cluster-ip-range", "10.96.0.0/16"]
    flags += ["--bind-address", address, "--advertise-address", address]
    with held_port(address) as port:
        flags += ["--secure-port", str(port), "--name", "apiserver-far", "--emulated-version", "1.36"]
    far = Far(state, address, port)
    with subprocess.Popen([sys.executable, "-m", "kubeskew", "apiserver", *flags], cwd=there) as process:
        try:
            eventually(far.ready)
            local.create(CONFIG_MAPS, config_map("here"), "apiserver-1")
            assert far.ask("GET", f"{CONFIG_MAPS}/here")[0] == 200
            newest = far.ask("GET", CONFIG_MAPS)[1]["metadata"]["resourceVersion"]
            assert far.ask("POST", CONFIG_MAPS, config_map("there"))[0] == 201
            eventually(lambda: local.ask("GET", f"{CONFIG_MAPS}/there", server="apiserver-2")[0] == 200)
            local.create(CONFIG_MAPS, config_map("again"), "apiserver-2")
            events = far.watched(f"{CONFIG_MAPS}?watch=1&timeoutSeconds=2&resourceVersion={newest}")
            assert events == [("ADDED", "there"), ("ADDED", "again")]
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
    local.run("replay")


def test_a_log_is_one_clusters_alone(local: Local, url: str, tmp_path: Path):
    """A second cluster is refused the log of the first, with what to do, and nothing is left of it."""
    other = Local(tmp_path / "other")
    warned, line = other.run("up", "--storage", url, code=2).stderr.splitlines()
    assert "has fsync=off: what was acknowledged is lost when its machine fails" in warned
    assert "has the log of another cluster" in line
    assert "name an empty database or schema" in line
    assert not other.state.exists()
    assert names(local, "apiserver-1") == []


def test_a_database_that_is_away_is_reported(tmp_path: Path):
    """`up` says in one line where no server answers, and leaves nothing behind."""
    local = Local(tmp_path / "state")
    line = local.refused("up", "--storage", f"postgresql://kubeskew:secret@/kubeskew?host={tmp_path}")
    assert "--storage: " in line
    assert "secret" not in line
    assert not local.state.exists()


def test_a_database_that_crashes_fails_writes_until_it_is_back(
    local: Local, postgresql: PostgreSQLServer, tmp_path: Path
):
    """Nothing acknowledged is lost, and both servers go on by themselves; a fork has what was there."""
    local.create(CONFIG_MAPS, config_map("before"), "apiserver-1")
    postgresql.stop(signal.SIGQUIT)
    try:
        status, answer = local.ask("POST", CONFIG_MAPS, config_map("refused"), "apiserver-1")
        assert (status, answer["reason"]) == (500, "InternalError")
        assert "\n" not in answer["message"]
        assert local.ask("GET", CONFIG_MAPS, server="apiserver-1")[0] == 500
        assert local.ask("GET", f"{CONFIG_MAPS}?resourceVersion=0", server="apiserver-1")[0] == 200
    finally:
        postgresql.start()
    eventually(lambda: local.ask("POST", CONFIG_MAPS, config_map("later"), "apiserver-1")[0] == 201)
    eventually(lambda: local.ask("GET", f"{CONFIG_MAPS}/later", server="apiserver-2")[0] == 200)
    assert names(local, "apiserver-2") == ["before", "later"]
    local.run("replay")
    at = int(local.get(f"{CONFIG_MAPS}/later", "apiserver-1")["metadata"]["resourceVersion"])
    fork = Local(tmp_path / "fork")
    local.run("fork", "--at", str(at), str(fork.state))
    fork.run("up")
    try:
        assert names(fork, "apiserver-1") == ["before", "later"]
        fork.run("replay")
    finally:
        fork.run("down", "--purge")


def test_a_password_is_shown_nowhere(tmp_path: Path, url: str):
    """Neither the status nor the record nor the arguments of a process have it."""
    local = Local(tmp_path / "state")
    local.run("up", "--nodes", "0", "--storage", url.replace("://kubeskew@", "://kubeskew:secret@"))
    try:
        said = local.run("status", "-o", "json").stdout
        assert "postgresql://kubeskew:***@/" in said
        pids = [row["pid"] for row in json.loads(said)["components"] if row["pid"]]
        shown = [Path(f"/proc/{pid}/cmdline").read_text() for pid in pids]
        assert "secret" not in "".join([said, (local.state / "state.json").read_text(), *shown])
    finally:
        local.run("down", "--purge")


def test_a_cluster_waits_for_its_log_and_is_repaired(tmp_path: Path, postgresql: PostgreSQLServer, url: str):
    """While its database is away each command says so and changes nothing; damage is reported and mended."""
    local = Local(tmp_path / "state")
    local.run("up", "--nodes", "0", "--storage", url)
    try:
        local.create(CONFIG_MAPS, config_map("a"))
        assert "leave --storage out" in local.refused("up", "--storage", postgresql.url("other"))
        local.run("down")
        postgresql.stop()
        try:
            assert "cannot start without the log: postgresql://" in local.refused("up", code=1)
            assert "postgresql://" in local.refused("events", code=1)
            assert "Try again when it can be had" in local.refused("down", "--purge", code=1)
        finally:
            postgresql.start()
        postgresql.sql("UPDATE objects SET value = 'x' WHERE name = 'a'", url)
        assert advised(local.state, "repair --from-log") in local.run("up", code=1).stderr
        local.run("down")
        local.run("repair", "--from-log")
        local.run("up")
        assert local.get(f"{CONFIG_MAPS}/a")["data"] == {"a": "b"}
    finally:
        local.run("down", "--purge")
