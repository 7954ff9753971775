"""Warnings about versions of kinds that are on their way out."""

import pytest
from server_in_process import Caller, close_server, open_server

VERSIONS = ("resource.k8s.io/v1beta1", "networking.k8s.io/v1beta1", "storage.k8s.io/v1alpha1")
ENDPOINTS = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
ADDRESSES = "networking.k8s.io/v1beta1 IPAddress is deprecated in v1.34+, unavailable in v1.37+"
CLASS = "storage.k8s.io/v1 VolumeAttributesClass"
CLASSES = "storage.k8s.io/v1alpha1 VolumeAttributesClass is deprecated in v1.32+, unavailable in v1.35+"
CLAIMS = "resource.k8s.io/v1beta1 ResourceClaim is deprecated in v1.35+, unavailable in v1.38+"


@pytest.mark.parametrize(
    ("minor", "path", "warnings"),
    [
        (32, "/api/v1/endpoints", []),
        (33, "/api/v1/endpoints", [ENDPOINTS]),
        (36, "/api/v1/namespaces/default/endpoints/none", [ENDPOINTS]),
        (34, "/apis/resource.k8s.io/v1beta1/resourceclaims", []),
        (35, "/apis/resource.k8s.io/v1beta1/resourceclaims", [CLAIMS]),
        (36, "/apis/resource.k8s.io/v1/resourceclaims", []),
        (33, "/apis/networking.k8s.io/v1beta1/ipaddresses", []),
        (34, "/apis/networking.k8s.io/v1beta1/ipaddresses", [ADDRESSES]),
        (33, "/apis/storage.k8s.io/v1alpha1/volumeattributesclasses", [CLASSES]),
        (34, "/apis/storage.k8s.io/v1alpha1/volumeattributesclasses", [f"{CLASSES}; use {CLASS}"]),
        (36, "/api/v1/componentstatuses", ["v1 ComponentStatus is deprecated in v1.19+"]),
    ],
)
async def test_a_warning_comes_from_the_minor_of_deprecation_on(minor: int, path: str, warnings: list[str]):
    """Every request of a deprecated kind is warned of, found or not."""
    server = await open_server(minor, runtime_config=dict.fromkeys(VERSIONS, True))
    try:
        answer = await Caller(server).get(path)
    finally:
        await close_server(server)

    assert answer.warnings == [f'299 - "{text}"' for text in warnings]
