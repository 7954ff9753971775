"""Certificates, kubeconfigs and secrets."""

import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from kubeskew.apimachinery.client.kubeconfig import load_kubeconfig
from kubeskew.cluster import config, creation
from kubeskew.cluster.creation import write_credentials
from kubeskew.cluster.pki import Authority, kubeconfig
from kubeskew.cluster.state import StateDir, write_secret, write_secrets

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_the_kubeconfig_is_block_yaml_with_an_unquoted_server():
    """Tools that read the kubeconfig line by line find the server as it is."""
    authority = Authority.create(NOW)
    text = kubeconfig(
        "https://127.0.0.1:6443", authority.pair.certificate, "admin", authority.client("admin")
    )

    assert "    server: https://127.0.0.1:6443\n" in text
    assert yaml.safe_load(text)["current-context"] == "kubeskew"


def test_each_of_several_servers_is_a_context(tmp_path: Path):
    """The kubeconfig leads to the first server, and by the name of another server to that one."""
    authority = Authority.create(NOW)
    urls = {"apiserver-1": "https://127.0.0.1:1", "apiserver-2": "https://127.0.0.1:2"}
    path = tmp_path / "kubeconfig"
    path.write_text(
        kubeconfig(
            urls["apiserver-1"], authority.pair.certificate, "admin", authority.client("admin"), contexts=urls
        )
    )

    assert load_kubeconfig(path).server == urls["apiserver-1"]
    assert {name: load_kubeconfig(path, name).server for name in urls} == urls


def test_the_administrator_reaches_all_servers(tmp_path: Path, ports):
    """The current context and `any` lead to the port that servers share; each has one of its own, too."""
    directory = StateDir(tmp_path)
    state = creation.plan(config.parse({"ha": 2}, "f"), ports)
    write_credentials(directory, state, NOW)
    server = {
        name: load_kubeconfig(directory.kubeconfig, name).server for name in ("", "any", *state.processes)[:4]
    }
    shared = f"https://127.0.0.1:{state.shared_port}"
    own = {process.name: process.url("") for process in state.of_kind("apiserver")}

    assert server == {"": shared, "any": shared, **own}
    assert len({shared, *own.values()}) == 3


def test_one_server_shares_no_port(ports):
    """It is reached at its own."""
    state = creation.plan(config.parse({}, "f"), ports)

    assert (state.shared_port, state.server) == (0, state.processes["apiserver"].url(""))


@pytest.mark.parametrize(
    ("component", "user", "reached"),
    [
        ("scheduler", "system:kube-scheduler", ["apiserver-1", "apiserver-2"]),
        ("controller-manager", "system:kube-controller-manager", ["apiserver-2"]),
        ("kubelet/a", "system:node:a", ["apiserver-1", "apiserver-2"]),
        ("kubelet/b", "system:node:b", ["apiserver-2"]),
        ("driver/d.example.com", "system:serviceaccount:kube-system:d.example.com", ["apiserver-2"]),
    ],
)
def test_each_component_speaks_to_its_server(tmp_path: Path, ports, component, user, reached):
    """A component reaches the API server that the cluster file gives it or its kind, else all of them."""
    others = {
        "controller-manager": "apiserver-2",
        "kubelet": "any",
        "kubelet/b": "apiserver-2",
        "driver": "apiserver-2",
    }
    nodes = [{"name": "a", "drivers": [{"name": "d.example.com"}]}, {"name": "b"}]
    components = {name: {"server": server} for name, server in others.items()}
    directory = StateDir(tmp_path)
    state = creation.plan(config.parse({"ha": 2, "nodes": nodes, "components": components}, "f"), ports)
    write_credentials(directory, state, NOW)
    names = {server.url(""): server.name for server in state.of_kind("apiserver")}
    written = load_kubeconfig(directory.component_kubeconfig(user))

    assert [names[each.server] for each in written.each()] == reached
    assert [server.name for server in state.servers_of(component)] == reached


def test_a_client_certificate_carries_user_and_groups():
    """The common name is the user, organisations are the groups."""
    pair = Authority.create(NOW).client("system:node:a", "system:nodes")
    subject = x509.load_pem_x509_certificate(pair.certificate).subject

    assert subject.rfc4514_string() == "CN=system:node:a,O=system:nodes"


@pytest.mark.filterwarnings("ignore:Attribute's length")  # of who reads it here
def test_an_account_may_have_a_long_name():
    """The name of a driver's controller may be longer than RFC 5280 has common names, and is not cut."""
    user = f"system:serviceaccount:kube-system:driver-controller.{'x' * 60}.example.com"
    pair = Authority.create(NOW).client(user)

    assert x509.load_pem_x509_certificate(pair.certificate).subject.rfc4514_string() == f"CN={user}"


def test_the_serving_certificate_is_accepted_by_openssl(tmp_path: Path):
    """The authority and the serving pair load into a TLS context."""
    authority = Authority.create(NOW)
    serving = authority.serving()
    for name, content in (
        ("ca", authority.pair.certificate),
        ("crt", serving.certificate),
        ("key", serving.key),
    ):
        write_secret(tmp_path / name, content)

    context = ssl.create_default_context(cafile=str(tmp_path / "ca"))
    context.load_cert_chain(tmp_path / "crt", tmp_path / "key")


def test_secrets_replace_what_was_there(tmp_path: Path):
    """Writing a secret twice leaves the second, and nothing else."""
    write_secret(tmp_path / "secret", "one")
    write_secret(tmp_path / "secret", "two")

    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("secret", "two")]


def test_many_secrets_at_once(tmp_path: Path):
    """Each lies where it should, for its owner only, and nothing else is left."""
    wanted = {tmp_path / "a" / f"{number}": f"secret {number}" for number in range(40)}
    write_secrets(wanted)

    assert {path: path.read_text() for path in (tmp_path / "a").iterdir()} == wanted
    assert {path.stat().st_mode & 0o777 for path in wanted} == {0o600}
