"""Faults before a real kube-apiserver 1.36: it is the same to clients, but for what the faults do."""

import base64
import http.client
import json
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from asking import CONFIG_MAPS, Local, config_map, eventually

pytestmark = [pytest.mark.real, pytest.mark.cluster, pytest.mark.timeout(600)]

REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
NEVER = ("--verb", "delete", "--resource", "nodes", "--answer", "500")


@pytest.fixture
def local(tmp_path: Path, binaries: Path) -> Iterator[Local]:
    found = Local(tmp_path / "state")
    found.run("up", "--version", "1.36", "--nodes", "1", "--binaries", str(binaries), "--real", "apiserver")
    yield found
    found.run("down", "--purge")


class Certified:
    """The administrator with the client certificate of the kubeconfig."""

    def __init__(self, local: Local) -> None:
        self.port = local.port()
        user = yaml.safe_load((local.state / "kubeconfig").read_text())["users"][0]["user"]
        pair = local.state / "pair.pem"
        parts = (user["client-certificate-data"], user["client-key-data"])
        pair.write_bytes(b"\n".join(base64.b64decode(part) for part in parts))
        self.context = ssl.create_default_context(cafile=str(local.state / "ca.crt"))
        self.context.load_cert_chain(pair)
        self.context.set_alpn_protocols(["h2", "http/1.1"])

    def protocol(self) -> str | None:
        plain = socket.create_connection(("127.0.0.1", self.port))
        with self.context.wrap_socket(plain, server_hostname="127.0.0.1") as tls:
            return tls.selected_alpn_protocol()

    def who(self) -> Any:
        self.context.set_alpn_protocols(["http/1.1"])
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context, timeout=20)
        headers = {"Content-Type": "application/json", "X-Remote-User": "eve", "X-Remote-Group": "x"}
        connection.request("POST", REVIEWS, json.dumps(REVIEW), headers)
        answer = json.loads(connection.getresponse().read())
        connection.close()
        self.context.set_alpn_protocols(["h2", "http/1.1"])
        return answer["status"]["userInfo"]


def is_refused(local: Local) -> bool:
    try:
        local.ask("GET", "/version")
    except ConnectionRefusedError:
        return True
    return False


def test_users_are_who_they_were(local: Local):
    """Names, groups and the certificate's id are the same through the proxy as at the server itself, and
    writers have their names in the log; without a fault the server's own HTTP/2 answers."""
    client = Certified(local)
    found = []
    for number, arguments in enumerate([(), ("fault", "apiserver", *NEVER), ("fault", "clear", "all")]):
        if arguments:
            local.run(*arguments)
        found.append((client.protocol(), client.who()))
        local.create(CONFIG_MAPS, config_map(f"c{number}"))
    assert [protocol for protocol, _ in found] == ["h2", "http/1.1", "h2"]
    assert found[0][1]["username"] == "kubernetes-admin"
    assert "authentication.kubernetes.io/credential-id" in found[0][1]["extra"]
    assert [who for _, who in found] == [found[0][1]] * 3

    def authors() -> bool:
        events = [event for event in local.events() if " default/c" in event["object"]]
        return [event["user"] for event in events] == ["kubernetes-admin"] * 3

    eventually(authors)


def test_answers_and_outages(local: Local):
    """A request is answered by a fault, an answer is lost after the write, and an outage refuses connections
    until it is over."""
    local.run(
        "fault", "apiserver", "--verb", "create", "--resource", "configmaps", "--answer", "503", "--nth", "1"
    )
    assert local.ask("POST", CONFIG_MAPS, config_map("a"))[0] == 503
    assert local.ask("POST", CONFIG_MAPS, config_map("a"))[0] == 201

    lost = ("--verb", "create", "--resource", "configmaps", "--drop", "answer", "--nth", "1", "--id", "lost")
    local.run("fault", "apiserver", *lost)
    with pytest.raises((OSError, http.client.HTTPException)):
        local.create(CONFIG_MAPS, config_map("b"))
    eventually(lambda: local.ask("GET", f"{CONFIG_MAPS}/b")[0] == 200)
    local.run("fault", "await", "lost")

    local.run("fault", "apiserver", "--outage", "30s", "--id", "away")
    assert is_refused(local)
    assert local.states()["apiserver"] != "Ready"
    local.run("fault", "clear", "all")
    eventually(lambda: not is_refused(local))
    assert local.get(f"{CONFIG_MAPS}/a")["data"] == {"a": "b"}
    local.run("check", "--quiet-for", "0")
