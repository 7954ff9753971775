"""Bodies that kubectl 1.36 sent (1.32 sends the same bytes), against what `--dry-run=client -o json` says."""

import json

import pytest
from recorded import DATA

from kubeskew.apimachinery.catalogue import catalogue_for
from kubeskew.apimachinery.golang.roundtrip import normalise
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.decoding import protobuf

_FILE = DATA / "protobuf" / "kubectl-1.36.jsonl"
RECORDED = [json.loads(line) for line in _FILE.read_text().splitlines()]


@pytest.mark.parametrize("row", RECORDED, ids=lambda row: row["name"])
def test_recorded(row):
    """Every recorded body holds the object that kubectl prints."""
    table = catalogue_for(Version(36))

    def definition_for(api_version, kind):
        group, _, version = api_version.rpartition("/")
        return table.kind_schema(group, version, kind)

    found = protobuf.decode_unknown(bytes.fromhex(row["body"]), definition_for)

    schema = definition_for(found["apiVersion"], found["kind"])
    assert normalise(found, schema) == normalise(row["object"], schema)


@pytest.mark.parametrize("minor", [26, 30, 33, 37])
def test_other_releases(minor):
    """Fields that a release does not know are left out without an error."""
    row = next(row for row in RECORDED if row["name"] == "deployment")
    schema = catalogue_for(Version(minor)).kind_schema("apps", "v1", "Deployment")

    found = protobuf.decode_unknown(bytes.fromhex(row["body"]), lambda *_: schema)

    assert normalise(found, schema) == normalise(row["object"], schema)
