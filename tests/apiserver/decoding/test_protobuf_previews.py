"""Bodies in protobuf of kinds that only a preview release has, by the numbers that are guessed for them."""

from pathlib import Path

import pytest
import yaml
from protobuf_writing import envelope, message
from server_in_process import Caller, close_server, open_server

from kubeskew.apimachinery.catalogue import catalogue_for
from kubeskew.apimachinery.versions import Version

RELEASE = Version(29, "kep4381")
EXAMPLES = Path(__file__).parents[3] / "conformance" / "examples" / "kep-4381"
GROUP, VERSION = "resource.k8s.io", "v1alpha2"
PROTOBUF = "application/vnd.kubernetes.protobuf"
PLURALS = {
    "card-slice": "noderesourceslices",
    "pool-slice": "noderesourceslices",
    "resource-class": "resourceclasses",
    "resource-claim-parameters": "resourceclaimparameters",
}


@pytest.mark.parametrize("name", PLURALS)
async def test_a_manifest_in_protobuf_is_the_object_that_it_is_in_json(name):
    """Each field of the draft's manifests arrives, those of embedded models among them."""
    manifest = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text("utf-8"))
    server = await open_server(RELEASE)
    api = Caller(server)
    await api.post("/api/v1/namespaces", {"metadata": {"name": "user-namespace"}})
    resource = catalogue_for(RELEASE).resource(GROUP, VERSION, PLURALS[name])
    namespace = "namespaces/user-namespace/" if resource.namespaced else ""
    path = f"/apis/{GROUP}/{VERSION}/{namespace}{resource.plural}?dryRun=All"
    body = {field: value for field, value in manifest.items() if field not in ("apiVersion", "kind")}
    raw = envelope(f"{GROUP}/{VERSION}", resource.kind, message(body, resource.schema))

    sent = await api("POST", path, raw, content_type=PROTOBUF)
    as_json = await api.post(path, manifest)
    await close_server(server)

    assert (sent.status, as_json.status) == (201, 201), sent.raw
    assert {field: sent.body[field] for field in body if field != "metadata"} == {
        field: as_json.body[field] for field in body if field != "metadata"
    }
