"""Kubeconfig files: embedded and file credentials, tokens, contexts, and what is wrong with bad ones."""

import base64
import re
import ssl
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kubeskew.apimachinery.client.kubeconfig import KubeconfigError, load_kubeconfig


@pytest.fixture(scope="module")
def pair():
    """A self-signed certificate and its key, in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "me")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    return (
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


@pytest.fixture
def write(tmp_path):
    """Write a kubeconfig with two contexts, of which `main` is current."""

    def write(user=None, cluster=None):
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "main",
            "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443", **(cluster or {})}}],
            "users": [{"name": "u", "user": user or {}}],
            "contexts": [
                {"name": "main", "context": {"cluster": "c", "user": "u"}},
                {"name": "other", "context": {"cluster": "c", "user": "u", "namespace": "apart"}},
                {"name": "broken", "context": {"cluster": "c", "user": "nobody"}},
            ],
        }
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(document))
        return path

    return write


def test_embedded_credentials(write, pair):
    """The usual form: everything in base64 inside the file, good for a TLS context."""
    certificate, key = pair
    encoded = {name: base64.b64encode(data).decode() for name, data in (("c", certificate), ("k", key))}
    path = write(
        {"client-certificate-data": encoded["c"], "client-key-data": encoded["k"]},
        {"certificate-authority-data": encoded["c"]},
    )
    config = load_kubeconfig(path)
    context = config.ssl_context()

    assert (certificate, key, certificate) == (config.certificate, config.key, config.ca)
    assert config.namespace == "default"
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.cert_store_stats()["x509"] == 1


def test_credentials_in_files_next_to_it(write, pair, tmp_path):
    """Relative paths are taken from the kubeconfig's directory."""
    (tmp_path / "me.crt").write_bytes(pair[0])
    (tmp_path / "me.key").write_bytes(pair[1])
    (tmp_path / "token").write_text("secret\n")
    config = load_kubeconfig(
        write({"client-certificate": "me.crt", "client-key": "me.key", "tokenFile": "token"})
    )

    assert (*pair, "secret") == (config.certificate, config.key, config.token)


def test_a_context_can_be_chosen(write):
    """Another context than the current one, with its namespace and a token."""
    config = load_kubeconfig(write({"token": "t"}), "other")

    assert (config.namespace, config.token) == ("apart", "t")


def test_plain_http_needs_no_tls(write):
    """A test server without TLS is reached without a context."""
    assert load_kubeconfig(write(cluster={"server": "http://127.0.0.1:1"})).ssl_context() is None


def test_verification_can_be_switched_off(write):
    """insecure-skip-tls-verify is honoured."""
    context = load_kubeconfig(write(cluster={"insecure-skip-tls-verify": True})).ssl_context()

    assert context.verify_mode == ssl.CERT_NONE


@pytest.mark.parametrize(
    ("user", "context", "text"),
    [
        pytest.param({}, "absent", "has no context 'absent'", id="no-such-context"),
        pytest.param({}, "broken", "has no user 'nobody'", id="no-such-user"),
        pytest.param({"exec": {}}, "", "credential plugins are not supported", id="exec"),
        pytest.param({"client-key": "gone"}, "", "cannot read", id="missing-file"),
        pytest.param({"client-key-data": "?"}, "", "client-key-data is not base64", id="not-base64"),
    ],
)
def test_what_is_wrong_is_said(write, user, context, text):
    """Errors name the file and the entry."""
    with pytest.raises(KubeconfigError, match=re.escape(text)):
        load_kubeconfig(write(user), context)


def test_a_missing_file_is_said(tmp_path):
    """Not a traceback but the path."""
    with pytest.raises(KubeconfigError, match=r"cannot read kubeconfig .*No such file"):
        load_kubeconfig(tmp_path / "absent")


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("", "is empty"),
        ("[]", "is not a mapping"),
        ("{}", "names no context"),
        ("contexts: x", "contexts is not a list of mappings"),
        ("contexts: [x]", "contexts is not a list of mappings"),
        ("{current-context: a, contexts: [{name: a, context: x}]}", "context 'a' is not a mapping"),
        ("{current-context: a, contexts: [{name: a, context: {}}]}", "names no cluster"),
    ],
)
def test_what_is_no_kubeconfig_is_said(tmp_path, text, mistake):
    """A file of another shape is reported by its name, not by a traceback."""
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(KubeconfigError, match=re.escape(f"{path}") + ".*" + re.escape(mistake)):
        load_kubeconfig(path)
