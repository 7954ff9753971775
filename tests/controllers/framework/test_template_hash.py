"""Hashes that a real server of 1.20 gave to pod templates and revisions."""

import pytest

from kubeskew.apimachinery.golang.raw_extensions import marshalled
from kubeskew.controllers.framework.history import TemplateLayout, data_hash, patch_of, template_hash

DEFAULTS = {
    "automountServiceAccountToken": False,
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "schedulerName": "none",
    "securityContext": {},
    "terminationGracePeriodSeconds": 30,
}
CONTAINER = {
    "name": "c",
    "image": "img",
    "imagePullPolicy": "Always",
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}


def limited(**limits: str) -> dict:
    return {"containers": [{**CONTAINER, "resources": {"limits": limits, "requests": limits}}]}


PORT_PROBE = {
    "tcpSocket": {"port": "web"},
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}
RICH = {
    "containers": [
        {
            **CONTAINER,
            "ports": [{"name": "web", "containerPort": 80, "protocol": "TCP"}],
            "readinessProbe": PORT_PROBE,
            "env": [
                {"name": "A", "value": "b"},
                {"name": "B", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
                {"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "0"}}},
            ],
        }
    ],
    "nodeSelector": {"z": "y", "a": "b"},
    "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}],
    "volumes": [{"name": "e", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}],
}


@pytest.mark.parametrize(
    ("spec", "recorded"),
    [
        pytest.param({"containers": [CONTAINER]}, "7746b6745", id="plain"),
        pytest.param(limited(cpu="1500m", memory="64Mi"), "5f7899fff7", id="quantities"),
        pytest.param(limited(cpu="2", memory="1Gi"), "5568fc54f7", id="quantities that keep their text"),
        pytest.param(limited(cpu="123456789012345678901"), "64845c6985", id="a number beyond 64 bits"),
        pytest.param(RICH, "59675bfb99", id="much"),
    ],
)
def test_a_hash_is_the_recorded_one(spec: dict, recorded: str):
    """The hash in the names of replica sets is the recorded one of upstream."""
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {**DEFAULTS, **spec}}

    assert template_hash(template, None) == recorded


def test_a_quantity_with_a_sign_is_hashed_as_it_is_written():
    """A plus is stored as it was sent, so that it makes another text."""
    hashes = {template_hash({"spec": limited(memory=memory)}, None) for memory in ("1Gi", "+1Gi", "2Gi")}

    assert len(hashes) == 3


def test_fields_younger_than_the_recordings_count():
    """A change of a field that 1.20 did not know makes another replica set, too."""
    plain = {"metadata": {}, "spec": {**DEFAULTS, "containers": [CONTAINER]}}
    younger = {"metadata": {}, "spec": {**DEFAULTS, "containers": [CONTAINER], "hostUsers": False}}

    assert template_hash(plain, None) != template_hash(younger, None)


def test_an_imported_release_has_a_layout_of_its_own():
    """Its text has the fields that its struct has, in their order."""
    spec = [["Fresh", "fresh", "[]v1.Mode"], ["Name", "name", "*string"]]
    layout = TemplateLayout(
        {"v1.PodTemplateSpec": [["Spec", "spec", "v1.PodSpec"]], "v1.PodSpec": spec, "v1.Mode": "string"}
    )
    template = {"spec": {"fresh": ["a", "b"]}}

    assert layout.text(template) == (
        "(v1.PodTemplateSpec){Spec:(v1.PodSpec){Fresh:([]v1.Mode)[a b] Name:(*string)<nil>}}"
    )
    assert template_hash(template, None, layout) != template_hash(template, None)


def test_a_revision_is_named_by_its_bytes():
    """Characters that Go escapes are hashed escaped."""
    container = {
        **CONTAINER,
        "image": "i",
        "args": ["<a&b>", "é\u2028"],
        "env": [{"name": "A", "value": "b"}],
    }
    defaults = {**DEFAULTS, "schedulerName": "default-scheduler"}
    del defaults["automountServiceAccountToken"]
    metadata = {"creationTimestamp": None, "labels": {"app": "web1"}}
    template = {"$patch": "replace", "metadata": metadata, "spec": {**defaults, "containers": [container]}}

    assert data_hash(marshalled({"spec": {"template": template}}), 0) == "698844fb8d"


def test_revisions_are_written_as_go_writes_maps() -> None:
    """Data of revisions have sorted keys, `$patch` first, and escapes of HTML; up to 1.33 an empty time."""
    spec = {"restartPolicy": "Always", "containers": [{"name": "c", "args": ["a && b"]}]}
    owner = {"spec": {"template": {"spec": spec, "metadata": {"labels": {"a": "b"}}}}}
    end = '"spec":{"containers":[{"args":["a \\u0026\\u0026 b"],"name":"c"}],"restartPolicy":"Always"}}}}'
    for empty_times, metadata in ((False, ""), (True, '"creationTimestamp":null,')):
        begin = f'{{"spec":{{"template":{{"$patch":"replace","metadata":{{{metadata}"labels":{{"a":"b"}}}},'
        assert patch_of(owner, writes_empty_times=empty_times).text.decode() == begin + end
