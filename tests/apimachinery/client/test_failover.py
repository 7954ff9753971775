"""Tests clients that may reach several API servers, as through a load balancer."""

import pytest

from kubeskew.apimachinery.client.kubeconfig import KubeconfigError, load_kubeconfig
from kubeskew.apimachinery.client.transport import Request, failing_over

ASKED = Request("GET", "/version", timeout=1)
ANY = "https://127.0.0.1:2"


class Server:
    """A transport to a server that may be `down` by an error."""

    def __init__(self, name):
        self.name, self.down, self.requests = name, None, 0

    async def __call__(self, _request):
        self.requests += 1
        if self.down is not None:
            raise self.down
        return self.name

    async def close(self):
        self.down = ConnectionResetError()


async def test_another_server_takes_over():
    """The first answers as long as it takes connections; then the second, also when the first is back."""
    first, second = Server("first"), Server("second")
    client = failing_over([first, second])
    answers = [await client(ASKED)]
    first.down = ConnectionRefusedError()
    answers += [await client(ASKED), await client(ASKED)]
    assert (first.requests, second.requests) == (2, 2)
    first.down = None
    answers.append(await client(ASKED))
    second.down = ConnectionRefusedError()
    answers.append(await client(ASKED))

    assert answers == ["first", "second", "second", "second", "first"]


async def test_what_a_server_may_have_received_is_not_sent_to_another():
    """A connection that breaks is the caller's failure, as through a load balancer."""
    first, second = Server("first"), Server("second")
    first.down = ConnectionResetError()
    with pytest.raises(ConnectionResetError):
        await failing_over([first, second])(ASKED)

    assert second.requests == 0


async def test_nobody_is_left():
    """Each server is asked once; the failure of the last one is reported."""
    servers = [Server("first"), Server("second"), Server("third")]
    for server in servers:
        server.down = ConnectionRefusedError(server.name)
    with pytest.raises(ConnectionRefusedError, match="third"):
        await failing_over(servers)(ASKED)

    assert [server.requests for server in servers] == [1, 1, 1]


def kubeconfig(path, extension):
    path.write_text(f"""
current-context: a
contexts: [{{name: a, context: {{cluster: c}}}}]
clusters:
- name: c
  cluster:
    server: https://127.0.0.1:1
    extensions: [{{name: kubeskew.io/servers, extension: {extension}}}]
""")
    return path


def test_a_kubeconfig_names_other_servers(tmp_path):
    """An extension of the cluster names the servers that may take its server's place."""
    config = load_kubeconfig(kubeconfig(tmp_path / "k", f"{{servers: ['{ANY}']}}"))

    assert [each.server for each in config.each()] == ["https://127.0.0.1:1", ANY]


def test_servers_that_are_no_list_are_refused(tmp_path):
    """A wrong extension is answered with its name."""
    with pytest.raises(KubeconfigError, match=r"kubeskew\.io/servers: servers is not a list"):
        load_kubeconfig(kubeconfig(tmp_path / "k", "{servers: 1}"))
