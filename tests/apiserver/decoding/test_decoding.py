# ruff: noqa: E501 - upstream's texts stand whole
"""Bodies of requests become objects, or upstream's 400."""

import json
from typing import Any

import pytest

from kubeskew.apimachinery.catalogue import catalogue_for
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.resources import Resource
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.decoding.decoder import Decoded, decode, parse

CATALOGUE = catalogue_for(Version(36))
JSON = "application/json"
YAML = "application/yaml"
HEAD = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
UNREAD = (
    "the object provided is unrecognized (must be of type Pod): couldn't get version/kind; json parse error: "
)
POD = 'Pod in version "v1" cannot be handled as a Pod: '


def resource(plural: str = "pods", group: str = "", version: str = "v1") -> Resource:
    found = CATALOGUE.resource(group, version, plural)
    assert found is not None
    return found


def decoded(body: Any, validation: str = "Warn", plural: str = "pods", content_type: str = JSON) -> Decoded:
    data = (
        body.encode()
        if isinstance(body, str)
        else body
        if isinstance(body, bytes)
        else json.dumps(body).encode()
    )
    return decode(data, content_type, resource(plural), CATALOGUE, validation)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("", f"{UNREAD}unexpected end of JSON input (<empty>)"),
        ("{", f"{UNREAD}unexpected end of JSON input ({{)"),
        ('{"a":1,}', f"{UNREAD}invalid character '}}' looking for beginning of object key string ({{\"a\":1,}})"),
        ("[1]", f"{UNREAD}json: cannot unmarshal array into Go value of type {HEAD} (5b315d)"),
        ('"x"', f"{UNREAD}json: cannot unmarshal string into Go value of type {HEAD} (227822)"),
        ('{"kind":5}', f'{UNREAD}json: cannot unmarshal number into Go struct field .kind of type string ({{"kind":5}})'),
        ('{"kind":"X"}', 'X in version "v1" cannot be handled as a Pod: no kind "X" is registered for version "v1" in scheme "pkg/api/legacyscheme/scheme.go:30"'),
        ('{"kind":"Secret"}', 'Secret in version "v1" cannot be handled as a Pod: converting (v1.Secret) to (core.Pod): unknown conversion'),
        ('{"spec":{"terminationGracePeriodSeconds":"x"}}', f"{POD}json: cannot unmarshal string into Go struct field PodSpec.spec.terminationGracePeriodSeconds of type int64"),
        ('{"spec":{"containers":[{"name":5}]}}', f"{POD}json: cannot unmarshal number into Go struct field Container.spec.containers.name of type string"),
        ('{"spec":{"dnsPolicy":5}}', f"{POD}json: cannot unmarshal number into Go struct field PodSpec.spec.dnsPolicy of type v1.DNSPolicy"),
        ('{"metadata":{"uid":5}}', f"{POD}json: cannot unmarshal number into Go struct field ObjectMeta.metadata.uid of type types.UID"),
        ('{"spec":{"containers":[{"resources":{"limits":[]}}]}}', f"{POD}json: cannot unmarshal array into Go struct field ResourceRequirements.spec.containers.resources.limits of type v1.ResourceList"),
        ('{"spec":{"containers":[{"securityContext":{"capabilities":{"add":[5]}}}]}}', f"{POD}json: cannot unmarshal number into Go struct field Capabilities.spec.containers.securityContext.capabilities.add of type v1.Capability"),
        ('{"spec":{"containers":{}}}', f"{POD}json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container"),
        ('{"metadata":{"labels":{"a":1}}}', f"{POD}json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string"),
        ('{"spec":{"containers":[{"resources":{"limits":{"cpu":"1e"}}}]}}', f"{POD}unable to parse quantity's suffix"),
        ('{"spec":{"containers":[{"resources":{"limits":{"cpu":"x"}}}]}}', f"{POD}quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
        ('{"spec":{"activeDeadlineSeconds":1.5}}', f"{POD}json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.activeDeadlineSeconds of type int64"),
        ('{"metadata":{"creationTimestamp":"noon"}}', f'{POD}parsing time "noon" as "2006-01-02T15:04:05Z07:00": cannot parse "noon" as "2006"'),
        ('{"spec":{"containers":[{"livenessProbe":{"httpGet":{"port":true}}}]}}',
         f"{POD}json: cannot unmarshal bool into Go struct field HTTPGetAction.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type int32"),
        ('{"metadata":{"creationTimestamp":5}}', f"{POD}json: cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type string"),
        ('{"metadata":{"creationTimestamp":"\u00fc"}}', f'{POD}parsing time "\\xc3\\xbc" as "2006-01-02T15:04:05Z07:00": cannot parse "\\xc3\\xbc" as "2006"'),
    ],
)  # fmt: skip
def test_a_body_of_another_shape_is_refused_with_gos_text(body: str, text: str) -> None:
    """400 BadRequest, in the words of Go's decoder."""
    with pytest.raises(StatusError) as caught:
        decoded(body)
    assert (caught.value.code, caught.value.reason, caught.value.message) == (400, "BadRequest", text)


def test_embedded_structs_are_in_the_paths_of_errors_since_1_35() -> None:
    """The decoder of older releases leaves them out."""
    body = b'{"apiVersion":"v1","kind":"Pod","spec":{"ephemeralContainers":[{"args":[5]}]}}'
    field = "EphemeralContainer.spec.ephemeralContainers.{}args of type string"
    for minor, name in ((34, ""), (35, "EphemeralContainerCommon.")):
        catalogue = catalogue_for(Version(minor))
        pods = catalogue.resource("", "v1", "pods")
        assert pods is not None
        with pytest.raises(StatusError, match=field.format(name)):
            decode(body, JSON, pods, catalogue)


def test_unknown_and_repeated_fields_follow_the_requests_wish() -> None:
    """Strict refuses, Warn warns, Ignore is silent; the fields are dropped in any case."""
    body = '{"spec":{"foo":1,"containers":[{"name":"c","bar":1}]},"metadata":{"name":"a","labels":{"x":"1","x":"2"}}}'
    texts = [
        'unknown field "spec.foo"',
        'unknown field "spec.containers[0].bar"',
        'duplicate field "metadata.labels.x"',
    ]
    warned = decoded(body)
    assert warned.warnings == texts
    assert warned.object["metadata"]["labels"] == {"x": "2"}
    assert "foo" not in warned.object["spec"]
    assert decoded(body, "Ignore").warnings == []
    with pytest.raises(
        StatusError, match=r"handled as a Pod: strict decoding error: unknown field \"spec.foo\", "
    ):
        decoded(body, "Strict")


@pytest.mark.parametrize(
    "body",
    [
        '{"metadata":{"name":"a" , "name" :"b"}}',
        '{"metadata":{"name":"a","\\u006eame":"b"}}',
        '{"metadata":{"na\\u006de":"a","name":"b"}}',
    ],
)
def test_repeated_keys_are_found_however_they_are_written(body: str) -> None:
    """Spaces and escapes do not hide them."""
    assert decoded(body).warnings == ['duplicate field "metadata.name"']


def test_missing_kind_and_version_come_from_the_request() -> None:
    """A body may leave out both; the answer has them."""
    made = decoded({"metadata": {"name": "a"}}).object
    assert (made["apiVersion"], made["kind"]) == ("v1", "Pod")
    assert decoded("null").object["metadata"] == {}


def test_another_version_of_the_kind_is_distinguished() -> None:
    """The version in the body must be that of the path."""
    claims = resource("resourceclaims", "resource.k8s.io")
    body = {"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceClaim", "metadata": {"name": "a"}}
    with pytest.raises(StatusError) as caught:
        decode(json.dumps(body).encode(), JSON, claims, CATALOGUE)
    assert caught.value.message == (
        "the API version in the data (resource.k8s.io/v1beta1) does not match the expected API version "
        "(resource.k8s.io/v1)"
    )


def test_yaml_is_read_as_go_reads_it() -> None:
    """Times stay text, keys become text, exponents are numbers."""
    value = parse(b"a: 2001-01-01\nb: 1e3\nc: yes\n5: x\nd: 010\ne: 1:30\n", YAML).value
    assert value == {"a": "2001-01-01", "b": 1000.0, "c": True, "5": "x", "d": 8, "e": "1:30"}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"a: b: c", "yaml: mapping values are not allowed in this context (613a20623a2063)"),
        (b"a: *b", "yaml: unknown anchor 'b' referenced (613a202a62)"),
    ],
)
def test_unreadable_yaml_is_unrecognized(body: bytes, text: str) -> None:
    """400 with libyaml's problem."""
    with pytest.raises(StatusError) as caught:
        decoded(body, content_type=YAML)
    assert caught.value.message == f"the object provided is unrecognized (must be of type Pod): {text}"


def test_keys_repeated_in_yaml_are_strict_errors() -> None:
    """In the words of goyaml."""
    body = b"metadata:\n  name: a\n  name: b\n"
    warnings = decoded(body, content_type=YAML).warnings
    assert warnings == ['line 3: key "name" already set in map']


@pytest.mark.parametrize(
    "body",
    [b"[" * 20000 + b"]" * 20000, b'{"a":' * 5000 + b"1" + b"}" * 5000, b'{"a":{"a":[' * 200],
    ids=["lists", "objects", "unclosed"],
)
def test_deep_nesting_is_refused(body: bytes) -> None:
    """A body cannot exhaust the stack."""
    with pytest.raises(StatusError) as caught:
        decoded(body)
    assert caught.value.code == 400


def test_aliases_cannot_blow_up() -> None:
    """The billion laughs are refused, and not expanded."""
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    with pytest.raises(StatusError, match="document contains excessive aliasing"):
        decoded("\n".join(lines), content_type=YAML)


def test_bytes_that_are_not_utf8_become_replacement_characters() -> None:
    """Bytes that are not UTF-8 are no error but become U+FFFD, as in Go."""
    made = decoded(b'{"metadata":{"name":"a","annotations":{"x":"\xff","y":"\\ud800"}}}').object
    assert made["metadata"]["annotations"] == {"x": "\ufffd", "y": "\ufffd"}
