"""Structs of resource.k8s.io as field errors show them, release by release."""

import pytest

from kubeskew.apimachinery.field import show
from kubeskew.apimachinery.golang.device_structs import device_structs, types_at
from kubeskew.apimachinery.versions import Version

CLAIM = {
    "devices": {
        "requests": [{"name": "r", "exactly": {"deviceClassName": "a<b", "count": 2}}],
        "config": [{"requests": ["r"], "opaque": {"driver": "d", "parameters": {"b": 1, "a": 2}}}],
    }
}
HEADS = [(36, '{"labels":'), (33, "resource.ResourceClaimTemplateSpec{ObjectMeta:v1.")]
EXACTLY = (
    '{"DeviceClassName":"a\\u003cb","Selectors":null,"AllocationMode":"","Count":2,"AdminAccess":null,'
    '"Tolerations":null,"Capacity":null}'
)
AS_JSON = (
    f'{{"Devices":{{"Requests":[{{"Name":"r","Exactly":{EXACTLY},"FirstAvailable":null}}],"Constraints":null,'
    '"Config":[{"Requests":["r"],"Opaque":{"Driver":"d","Parameters":{"b":1,"a":2}}}]}}'
)
IN_GO = (
    "resource.ResourceClaimSpec{Devices:resource.DeviceClaim{Requests:[]resource.DeviceRequest{"
    'resource.DeviceRequest{Name:"r", Exactly:(*resource.ExactDeviceRequest)(0xc000000000), '
    "FirstAvailable:[]resource.DeviceSubRequest(nil)}}, Constraints:[]resource.DeviceConstraint(nil), "
    'Config:[]resource.DeviceClaimConfiguration{resource.DeviceClaimConfiguration{Requests:[]string{"r"}, '
    "DeviceConfiguration:resource.DeviceConfiguration{Opaque:(*resource.OpaqueDeviceConfiguration)(0xc000000000)"
    "}}}}}"
)


HEADS = [(36, '{"labels":'), (33, "resource.ResourceClaimTemplateSpec{ObjectMeta:v1.")]


@pytest.mark.parametrize(("minor", "wanted"), [(36, AS_JSON), (33, IN_GO)])
def test_a_spec_is_shown_whole(minor, wanted):
    """A spec is JSON with Go's names and every field since 1.34, in Go's syntax before."""
    assert show(device_structs(Version(minor)).shown(CLAIM, "resource.ResourceClaimSpec")) == wanted


@pytest.mark.parametrize(("minor", "lists"), [(36, True), (35, False)])
def test_a_struct_has_the_fields_of_its_release(minor, lists):
    """Attributes may be lists since 1.36, and have other names in JSON than in Go."""
    shown = show(device_structs(Version(minor)).shown({"int": 1, "bool": True}, "resource.DeviceAttribute"))
    assert shown.startswith('{"IntValue":1,"BoolValue":true,"StringValue":null,"VersionValue":null')
    assert ("IntValues" in shown) == lists


@pytest.mark.parametrize(("minor", "head"), HEADS)
def test_embedded_metadata_are_shown_in_their_order(minor, head):
    """Labels come before annotations, regardless of the request's order; the time of creation is left out."""
    spec = {"metadata": {"annotations": {"a": "b"}, "labels": {"c": "d"}}}
    shown = device_structs(Version(minor)).shown(spec, "resource.ResourceClaimTemplateSpec")
    assert show(shown).startswith(head)


def test_an_imported_release_has_structs_of_its_own():
    """Its document lies over the types of its minor, which it need not have."""
    types = types_at(36, {"resource.Device": [["Name", "string"]], "resource.Fresh": "string"})

    assert (types["resource.Device"], types["resource.Fresh"]) == ([["Name", "string"]], "string")
    assert {**types, "resource.Device": 0, "resource.Fresh": 0} == {
        **types_at(36, None), "resource.Device": 0, "resource.Fresh": 0,
    }  # fmt: skip
