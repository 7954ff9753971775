"""Projected volumes with certificates and trust bundles (pkg/apis/core/validation, 1.36)."""

import pytest

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.discovery.endpointslice import slice_errors
from kubeskew.apiserver.registry.shared.signers import signer_errors
from kubeskew.apiserver.registry.shared.volumes.sources import projected_errors

GOOD = {"signerName": "acme.io/s", "keyType": "ED25519", "credentialBundlePath": "b"}
AT = "p.sources[0].podCertificate"
SECONDS = f"{AT}.maxExpirationSeconds: Invalid value: %d: if provided, maxExpirationSeconds must be %s"
DOMAIN = f'{AT}.userAnnotations: Invalid value: "a": must be a domain-prefixed key (such as "acme.io/foo")'
NO_FILE = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"


def shown(*sources: Object) -> list[str]:
    return [str(error) for error in projected_errors({"sources": list(sources)}, "p")]


@pytest.mark.parametrize(
    ("fields", "errors"),
    [
        ({}, []),
        (
            {"maxExpirationSeconds": 3599},
            [SECONDS % (3599, ">= 3600")],
        ),
        (
            {"signerName": "a.kubernetes.io/s", "maxExpirationSeconds": 86401},
            [SECONDS % (86401, "<= 86400")],
        ),
        (
            {"maxExpirationSeconds": 91 * 86400 + 1},
            [SECONDS % (7862401, "<= 7862400")],
        ),
        ({"credentialBundlePath": ""}, [f"{AT}: Required value: {NO_FILE}"]),
        ({"keyPath": "b"}, ['p: Invalid value: "b": conflicting duplicate paths']),
        (
            {"userAnnotations": {"A": "x"}},
            [DOMAIN],
        ),
        ({"userAnnotations": {"acme.io/a": "x"}}, []),
    ],
)
def test_pod_certificates(fields: Object, errors: list[str]):
    """A certificate's lifetime, files and annotations are refused as upstream refuses them."""
    assert shown({"podCertificate": {**GOOD, **fields}}) == errors


def test_names_of_trust_bundles():
    """The name of a bundle with a colon is the signer's name and one of its own."""
    sources = [{"clusterTrustBundle": {"name": name, "path": name[0]}} for name in ("a.b:c:d", "B:")]

    assert [error.partition(": ")[0] for error in shown(*sources)] == ["p.sources[1].clusterTrustBundle.name"]


@pytest.mark.parametrize(
    ("name", "count"), [("a.io/s", 0), ("A.B.io/s", 1), ("a.io/S.T", 1), (f"{'a' * 63}.io/{'s' * 600}", 2)]
)
def test_names_of_signers(name: str, count: int):
    """Of a signer's domain and of its path, the first wrong label alone is reported."""
    assert len(list(signer_errors(name, "signerName"))) == count


def test_too_many_zones_hide_the_hints_for_nodes():
    """Hints for nodes are looked at only where there are not too many for zones."""
    hints = {"forZones": [{"name": "z"}] * 9, "forNodes": [{"name": "A"}]}

    obj = {"addressType": "IPv4", "endpoints": [{"addresses": ["1.2.3.4"], "hints": hints}]}

    errors = list(slice_errors(obj, local=True, typed=True))
    assert [error.path for error in errors] == ["endpoints[0].hints.forZones"]
