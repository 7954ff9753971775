"""Upstream's command lines for components of kubeskew, hack/e2e/components.py."""

import importlib.util
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from cryptography import x509

from kubeskew.kubelet.node.config import NodeLayout

HERE = Path(__file__).parents[2] / "hack" / "e2e"


def loaded() -> ModuleType:
    """The module as a program of `bin` finds it."""
    name = "e2e_components"
    spec = importlib.util.spec_from_file_location(name, HERE / "components.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


components: Any = loaded()
COMMANDS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy")


def test_every_component_has_its_program():
    """A script that calls upstream's names finds a program for each."""
    assert {path.name for path in (HERE / "bin").iterdir()} == {"component", *COMMANDS}
    assert {(HERE / "bin" / name).resolve().name for name in COMMANDS} == {"component"}


@pytest.mark.parametrize(
    ("folder", "environment", "release"),
    [
        ("v1.35.6", {}, "1.35.6"),
        ("1.34", {"KUBESKEW_VERSION": "1.33"}, "1.34"),
        ("bin", {"KUBESKEW_VERSION": "1.33"}, "1.33"),
        ("bin", {}, "1.36"),
    ],
)
def test_the_folder_of_a_program_says_its_release(folder: str, environment: dict[str, str], release: str):
    """Scripts that keep releases in folders of their names get components of those."""
    assert components.release_of(Path("/cache") / folder / "kubelet", environment) == release


def test_flags_are_read_in_gos_forms():
    """Empty values and arguments, as scripts leave them where a variable is not set, do not count."""
    arguments = ["--a=1", "", "-b=2", "--c", "--d", "3", "--e=", "--a=4"]
    assert components.given_flags(arguments) == {"a": ["1", "4"], "b": ["2"], "c": ["true"], "d": ["3"]}


@pytest.mark.parametrize(
    ("command", "flags", "arguments", "left_out"),
    [
        (
            "apiserver",
            {
                "anonymous-auth": ["false"],
                "service-account-issuer": ["a", "b"],
                "authorization-mode": ["RBAC"],
            },
            ["--no-anonymous-auth", "--service-account-issuer=b"],
            ["--authorization-mode"],
        ),
        (
            "controller-manager",
            {"leader-elect": ["false"], "use-service-account-credentials": ["true"], "cloud-provider": ["x"]},
            ["--no-leader-elect", "--use-service-account-credentials"],
            ["--cloud-provider"],
        ),
        ("scheduler", {"secure-port": ["1", "2"], "master": ["m"]}, ["--secure-port=2"], ["--master"]),
    ],
)
def test_flags_that_a_command_has_are_passed_on(
    command: str, flags: dict[str, list[str]], arguments: list[str], left_out: list[str]
):
    """The last value of a flag counts unless it may be repeated; unknown flags are named."""
    line = components.translated(components._command(command), flags)
    if "service-account-issuer" in flags:
        arguments = ["--no-anonymous-auth", "--service-account-issuer=a", *arguments[1:]]
    assert (line.arguments, line.left_out) == (arguments, left_out)


def test_an_api_server_keeps_its_log_with_the_cluster(monkeypatch: pytest.MonkeyPatch):
    """The log is next to the key of service accounts, at every release the same."""
    monkeypatch.delenv("KUBESKEW_STORE", raising=False)
    given = {"service-account-signing-key-file": ["/tmp/up.X/sa.key"], "runtime-config": ["a/v1,b/v2=false"]}
    flags = components.apiserver_line(given, "1.35.6")
    assert flags["storage-url"] == ["sqlite:////tmp/up.X/kubeskew.db"]
    assert flags["runtime-config"] == ["a/v1=true,b/v2=false"]
    assert flags["emulated-version"] == ["1.35.6"]
    with pytest.raises(components.ComponentError, match="service-account-signing-key-file"):
        components.apiserver_line({}, "1.35.6")


def test_a_kubelets_configuration_file_becomes_flags():
    """Gates, authorities and modes of a KubeletConfiguration are flags of ours."""
    config = {
        "featureGates": {"A": True, "B": False},
        "authentication": {"webhook": {"enabled": True}, "x509": {"clientCAFile": "/ca"}},
        "authorization": {"mode": "AlwaysAllow"},
    }
    assert components.kubelet_flags({"v": ["3"], "kubeconfig": ["/k"], "cloud-provider": ["x"]}, config) == {
        "feature-gates": ["A=true,B=false"],
        "client-ca-file": ["/ca"],
        "anonymous-auth": ["false"],
        "authentication-token-webhook": ["true"],
        "authorization-mode": ["AlwaysAllow"],
        "v": ["3"],
        "kubeconfig": ["/k"],
    }


def test_a_node_has_its_files_where_upstream_has_them(tmp_path: Path):
    """The node's directories lead to upstream's, again after a restart."""
    layout = NodeLayout.under(tmp_path / "root", "127.0.0.1", tmp_path / "s")
    kubelet, cdi = tmp_path / "kubelet", tmp_path / "cdi"
    for _ in range(2):
        components.node_directories(layout, kubelet, cdi)
        layout.make()
    assert layout.registry.resolve() == kubelet / "plugins_registry"
    assert layout.plugins.resolve() == kubelet / "plugins"
    assert layout.device_plugins.resolve() == kubelet / "device-plugins"
    assert layout.pod_resources.resolve() == kubelet / "pod-resources"
    assert (layout.kubelet.resolve(), layout.cdi.resolve()) == (kubelet, cdi)


def test_a_serving_certificate_is_requested_as_the_node(tmp_path: Path):
    """The request has the node's name, its group and its addresses, so that it may be approved."""
    key, _, _ = components.key_pair(tmp_path, "kubelet")
    request = x509.load_pem_x509_csr(components.serving_request(key, "n", ["127.0.0.1", "localhost"]))
    assert request.subject.rfc4514_string() == "CN=system:node:n,O=system:nodes"
    names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == ["127.0.0.1", "localhost"]


def test_a_line_of_upstreams_log_says_that_a_component_is_ready(capfd: pytest.CaptureFixture[str]):
    """Scripts that wait for the line find it once the component behind the port answers."""
    port = components.free_port()
    components.say_when_ready(port, '"Caches are synced"')
    [readiness] = [thread for thread in threading.enumerate() if thread.name == "readiness"]
    assert capfd.readouterr().err == ""
    components.serve_health("127.0.0.1", port, 0, None)
    readiness.join(30)
    assert capfd.readouterr().err == '"Caches are synced"\n'


def test_nothing_but_health_is_served():
    """Other pages of the component, its metrics among them, are for clients that it knows."""
    import http.client

    behind, port = components.free_port(), components.free_port()
    components.serve_health("127.0.0.1", behind, 0, None)
    components.serve_health("127.0.0.1", port, behind, None)
    statuses = []
    for path in ("/healthz", "/livez", "/readyz?verbose", "/metrics", "/healthz/../metrics"):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", path)
        statuses.append(connection.getresponse().status)
        connection.close()
    assert statuses == [200, 200, 200, 404, 404]


def test_a_certificate_is_made_on_the_29th_of_february(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A day that the years around it do not have is no obstacle."""
    leap_day = datetime(2028, 2, 29, tzinfo=UTC)
    monkeypatch.setattr(components.SystemClock, "now", lambda self: leap_day)
    certificate, _ = components.self_signed(tmp_path, "localhost")
    found = x509.load_pem_x509_certificate(certificate.read_bytes())
    assert found.not_valid_before_utc < leap_day < found.not_valid_after_utc


def test_health_is_served_over_tls(tmp_path: Path):
    """A scheduler's HTTPS port answers as its plain one does, and with 503 while there is none."""
    import http.client
    import ssl

    ports = [components.free_port() for _ in range(3)]
    components.serve_health("127.0.0.1", ports[0], 0, None)
    certificate = components.self_signed(tmp_path, "localhost")
    components.serve_health("127.0.0.1", ports[1], ports[0], certificate)
    components.serve_health("127.0.0.1", ports[2], 1, certificate)
    context = ssl.create_default_context(cafile=str(certificate[0]))
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    statuses = []
    for port in ports[1:]:
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=10)
        connection.request("GET", "/healthz")
        statuses.append(connection.getresponse().status)
        connection.close()
    assert statuses == [200, 503]
