"""PostgreSQL over TCP: passwords, TLS, several hosts."""

import socket
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from postgresql_server import PostgreSQLServer, running_server
from storage_cases import CLOCK, START, create, pod

from kubeskew.apiserver.storage.interfaces import StorageError
from kubeskew.apiserver.storage.sql_log import LogReader, SQLLog
from kubeskew.cluster.config import check_storage
from kubeskew.cluster.pki import Authority

pytestmark = pytest.mark.postgresql

BY_TLS = b"local all all trust\nhostssl all all 127.0.0.0/8 scram-sha-256\n"
IN_CLEAR = b"local all all trust\nhost all all 127.0.0.0/8 scram-sha-256\n"
AWAY = "127.0.0.1:1"  # nobody listens there


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


@dataclass
class Network:
    """A server whose certificate is for 127.0.0.1 and localhost, and whose user has the password `right`."""

    server: PostgreSQLServer

    def url(self, query: str = "", password: str = "right", host: str = "127.0.0.1", before: str = "") -> str:
        named = query.replace("DIR", str(self.server.directory))
        return f"postgresql://kubeskew:{password}@{before}{host}:{self.server.port}/kubeskew{named}"


@pytest.fixture(scope="module")
def network(needs_postgresql: None) -> Iterator[Network]:
    with running_server() as server:
        server.sql("ALTER USER kubeskew PASSWORD 'right'")
        server.stop()
        authority, stranger = Authority.create(START), Authority.create(START, "stranger")
        pair = authority.serving()
        server.write("authority.crt", authority.pair.certificate)
        server.write("stranger.crt", stranger.pair.certificate)
        server.settings = {
            "ssl": "on",
            "ssl_cert_file": str(server.write("server.crt", pair.certificate)),
            "ssl_key_file": str(server.write("server.key", pair.key)),
        }
        server.write("data/pg_hba.conf", BY_TLS)
        server.port = free_port()
        server.start()
        yield Network(server)


async def reached(url: str) -> int:
    """The number of events that a log of the URL has after one more."""
    log = await SQLLog.open(url, CLOCK)
    try:
        await log.append(create(pod(f"p{await log.revision()}")))
        return await log.revision()
    finally:
        await log.close()


async def refusal(url: str) -> str:
    """The one line that says why a log cannot be opened, without the URL and with no password in it."""
    said = []
    for opened in (SQLLog.open(url, CLOCK), LogReader.open(url)):
        with pytest.raises(StorageError) as caught:
            await opened
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert "\n" not in said[0]
    assert "right" not in said[0]
    return said[0]


@pytest.mark.parametrize(
    "query",
    ["", "?sslmode=require", "?sslmode=verify-ca&sslrootcert=DIR/authority.crt",
     "?sslmode=verify-full&sslrootcert=DIR/authority.crt"],
)  # fmt: skip
async def test_a_log_is_reached_over_tls(network: Network, query: str) -> None:
    """A server that takes nothing but TLS and passwords is written to, as the URL asks for TLS."""
    url = network.url(query)
    assert await reached(url) >= 2
    log = await SQLLog.open(url, CLOCK)
    sessions = "FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE client_addr IS NOT NULL"
    assert network.server.sql(f"SELECT bool_and(ssl) {sessions}") == ["t"]
    await log.close()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("?sslmode=disable", 'no pg_hba.conf entry for host "127.0.0.1"'),
        ("?sslmode=verify-ca&sslrootcert=DIR/stranger.crt", "the server's certificate is not trusted: "),
        ("?sslmode=verify-full&sslrootcert=DIR/stranger.crt", "; sslrootcert=FILE in the URL names its"),
        ("?sslmode=verify-full&sslrootcert=DIR/none.crt", "none.crt: [Errno 2] No such file or directory"),
        ("?sslmode=nonsense", "`sslmode` parameter must be one of: disable, allow, prefer, require,"),
    ],
)  # fmt: skip
async def test_what_is_wrong_with_tls_is_reported(network: Network, query: str, said: str) -> None:
    """The line says what is wrong, and never that a certificate makes the URL a wrong one."""
    found = await refusal(network.url(query))
    assert said in found
    assert ("is no URL of a database" in found) == ("nonsense" in query)


async def test_a_certificate_is_for_its_host(network: Network) -> None:
    """With verify-full, and with that alone, the name has to be one of the certificate's."""
    other = "127.0.0.2"
    query = "sslrootcert=DIR/authority.crt"
    assert await reached(network.url(f"?sslmode=verify-ca&{query}", host=other))
    assert await reached(network.url(f"?sslmode=verify-full&{query}", host="localhost"))
    said = await refusal(network.url(f"?sslmode=verify-full&{query}", host=other))
    assert "the server's certificate is not trusted: IP address mismatch" in said


async def test_a_wrong_password_is_reported(network: Network) -> None:
    """The line has PostgreSQL's own words, and not the password."""
    said = await refusal(network.url(password="wr0ng"))
    assert said.endswith(': password authentication failed for user "kubeskew"')
    assert "wr0ng" not in said


async def test_the_first_host_that_answers_is_taken(network: Network) -> None:
    """Hosts that are away are passed over; where all are, the line says so."""
    url = network.url(before=f"{AWAY},")
    check_storage(url, "--storage")
    assert await reached(url)
    assert await reached(network.url("?target_session_attrs=read-write", before=f"{AWAY},"))
    said = await refusal(f"postgresql://kubeskew:right@{AWAY},127.0.0.1:2/kubeskew")
    assert f"@{AWAY},127.0.0.1:2/kubeskew: cannot connect: " in said


async def test_a_log_goes_on_at_the_host_that_takes_over(network: Network) -> None:
    """Writes go on at the URL's other host when the first has ended and that serves the database."""
    server, first = network.server, network.server.port
    second = free_port()
    url = f"postgresql://kubeskew:right@127.0.0.1:{first},127.0.0.1:{second}/kubeskew"
    log = await SQLLog.open(url, CLOCK)
    before = await log.append(create(pod("before")))
    server.stop()
    with pytest.raises(StorageError, match=r"cannot connect|connection was closed"):
        await log.append(create(pod("between")))
    server.port = second
    server.start()
    try:
        assert (await log.append(create(pod("after")))).revision == before.revision + 1
    finally:
        await log.close()


async def test_a_server_without_tls_is_reported(network: Network) -> None:
    """Whoever requires TLS is informed that the server has none; who leaves it open is served in clear."""
    server = network.server
    server.stop()
    settings, server.settings = server.settings, {}
    server.write("data/pg_hba.conf", IN_CLEAR)
    server.start()
    try:
        said = await refusal(network.url("?sslmode=require"))
        assert said.endswith(
            f': cannot connect: PostgreSQL server at "127.0.0.1:{server.port}" rejected SSL upgrade'
        )
        assert await reached(network.url())
    finally:
        server.stop()
        server.settings = settings
        server.write("data/pg_hba.conf", BY_TLS)
        server.start()
