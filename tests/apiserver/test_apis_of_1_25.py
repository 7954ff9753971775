"""Tests what the preview 1.25+kep3063 serves because 1.25 did: API versions that 1.26 removed."""

import asyncio
import re

import orjson
import pytest
from server_in_process import Caller, close_server, open_server

from kubeskew.apimachinery.catalogue import catalogue_for
from kubeskew.apimachinery.catalogue.types import types_of
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.decoding.protobuf.messages import unnumbered
from kubeskew.apiserver.storage.records import Key

RELEASE = Version(25, "kep3063")
AUTOSCALERS = "/apis/autoscaling/{}/namespaces/default/horizontalpodautoscalers"
FLOW = "/apis/flowcontrol.apiserver.k8s.io"
BETAS = [("autoscaling", "v2beta2"), ("flowcontrol.apiserver.k8s.io", "v1beta1")]
DEPRECATED = (
    "autoscaling/v2beta2 HorizontalPodAutoscaler is deprecated in v1.23+, unavailable in v1.26+; "
    "use autoscaling/v2 HorizontalPodAutoscaler"
)
SPEC = {
    "maxReplicas": 3,
    "metrics": [{"type": "Resource", "resource": {
        "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}
    }}],
    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
}  # fmt: skip


@pytest.fixture
async def server():
    """A server of the preview."""
    server = await open_server(RELEASE)
    yield server
    await close_server(server)


@pytest.mark.parametrize(("group", "version"), BETAS)
def test_betas_of_1_25_are_on_until_1_26(group, version):
    """The beta versions are served by default, may be turned off, and are gone in 1.26."""
    assert version in dict(catalogue_for(RELEASE).groups())[group]
    off = catalogue_for(RELEASE, None, {f"{group}/{version}": False})
    assert version not in dict(off.groups())[group]
    assert version not in dict(catalogue_for(Version(26)).groups())[group]


@pytest.mark.parametrize("kind", [
    "autoscaling.v2beta2.HorizontalPodAutoscaler", "flowcontrol.v1beta1.FlowSchema",
    "flowcontrol.v1beta1.PriorityLevelConfiguration",
])  # fmt: skip
def test_types_of_the_betas_are_whole(kind):
    """Types refer to those of their own version, and each field can be read from protobuf."""
    schema = types_of(RELEASE)[f"io.k8s.api.{kind}"]
    spec = schema.fields["spec"].schema

    assert spec.name == f"io.k8s.api.{kind}Spec"
    assert list(unnumbered(schema)) == []
    assert f"io.k8s.api.{kind}" not in types_of(Version(26))


async def test_an_autoscaler_of_v2beta2_is_one_of_v2(server):
    """An autoscaler of v2beta2 is stored as v1, has the defaults of v2, and is found in every version; its
    requests are warned of.
    """
    api = Caller(server)
    made = await api.post(AUTOSCALERS.format("v2beta2"), {"metadata": {"name": "web"}, "spec": SPEC})
    newer = await api.get(AUTOSCALERS.format("v2") + "/web")
    oldest = await api.get(AUTOSCALERS.format("v1") + "/web")
    key = Key("horizontalpodautoscalers.autoscaling", "default", "web")
    stored = orjson.loads(server.services.store.get(key).value)

    assert (made.status, made.body["apiVersion"]) == (201, "autoscaling/v2beta2")
    assert made.body["spec"] == newer.body["spec"] == {**SPEC, "minReplicas": 1}
    assert oldest.body["spec"]["targetCPUUtilizationPercentage"] == 60
    assert stored["apiVersion"] == "autoscaling/v1"
    (warning,) = made.warnings
    assert warning == f'299 - "{DEPRECATED}"'


async def test_levels_of_v1beta1_have_assured_shares(server):
    """Both betas of 1.25 name shares alike, and the newer one is stored."""
    api = Caller(server)
    limited = {"assuredConcurrencyShares": 7, "limitResponse": {"type": "Reject"}}
    level = {"metadata": {"name": "mine"}, "spec": {"type": "Limited", "limited": limited}}
    made = await api.post(f"{FLOW}/v1beta1/prioritylevelconfigurations", level)
    newer = await api.get(f"{FLOW}/v1beta2/prioritylevelconfigurations/mine")
    key = Key("prioritylevelconfigurations.flowcontrol.apiserver.k8s.io", "", "mine")

    assert made.status == 201, made.raw
    assert made.body["spec"]["limited"] == newer.body["spec"]["limited"] == limited
    assert orjson.loads(server.services.store.get(key).value)["apiVersion"].endswith("/v1beta2")
    schemas = await asyncio.gather(
        *(api.get(f"{FLOW}/{version}/flowschemas") for version in ("v1beta1", "v1beta2"))
    )
    assert [len(answer.body["items"]) > 5 for answer in schemas] == [True, True]


async def test_an_autoscaler_of_v2beta2_is_refused_as_one_of_v2(server):
    """The rules are the same, and the answer names the version that was asked."""
    spec = {**SPEC, "maxReplicas": 0}
    refused = await Caller(server).post(
        AUTOSCALERS.format("v2beta2"), {"metadata": {"name": "x"}, "spec": spec}
    )

    assert refused.status == 422
    assert "spec.maxReplicas" in {cause["field"] for cause in refused.body["details"]["causes"]}


async def test_openapi_describes_the_betas(server):
    """OpenAPI has the paths and the types of the betas, and every type that they refer to."""
    document = (await Caller(server).get("/openapi/v2")).body
    names = set(document["definitions"])
    referred = set(re.findall(rb'"#/definitions/([^"]+)"', orjson.dumps(document)))

    assert "io.k8s.api.autoscaling.v2beta2.MetricSpec" in names
    assert "/apis/autoscaling/v2beta2/horizontalpodautoscalers" in document["paths"]
    assert {name.decode() for name in referred} <= names
