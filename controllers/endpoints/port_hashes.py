"""The hashes by which upstream sorts the ports of Endpoints and their slices: of their dumps by go-spew.

Sources: k8s.io/kubernetes/pkg/api/v1/endpoints/util.go, k8s.io/endpointslice/util/controller_utils.go, 1.36.
"""

import hashlib
from collections.abc import Callable

from kubeskew.apimachinery.golang.fnv import fnv1a_128
from kubeskew.controllers.endpoints.features import EndpointsFeatures

Hash = Callable[[bytes], bytes]


def md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def fnv(data: bytes) -> bytes:
    return fnv1a_128(data).to_bytes(16, "big")


def digest_of(features: EndpointsFeatures) -> Hash:
    """Returns the hash of a release."""
    return fnv if features.ports_by_fnv else md5
