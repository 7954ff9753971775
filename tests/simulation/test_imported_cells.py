"""Scenarios whose paths lead through imported releases, simulated."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from imported import enhanced, import_into

from kubeskew.apimachinery.imported_releases import ENVIRONMENT
from kubeskew.cli.commands.scenarios import matrix

# A field and its gate, from the release before it to the one that has it and back.
SCENARIO = """
apiVersion: kubeskew.io/v1alpha1
kind: Scenario
spec:
  cluster:
    version: ($path.from)
    nodes: [{name: a}]
  parameters:
    path:
    - {name: 1.36-1.37+path-1.36, from: "1.36", to: "1.37+path"}
    - {name: 1.37-1.38-1.37, from: "1.37", to: "1.38"}
  expectedFailures:
  - steps: [invariants]
    found: '^I12 no-silent-field-loss: Pod there-and-back/with(?= .* lost spec\\.fancy, which API server 1\\.3[67] does not know)'
    reason: the older server decodes the object without the field, and writes it so
    source: KEP-5004, Upgrade / Downgrade Strategy
---
apiVersion: chainsaw.kyverno.io/v1alpha1
kind: Test
metadata: {name: there-and-back}
spec:
  description: A new field lives with its gate and its release.
  steps:
  - name: the older release does not know the field
    try:
    - create:
        resource: &old {apiVersion: v1, kind: Pod, metadata: {name: old}, spec: {fancy: blue, containers: [&c {name: c, image: busybox}]}}
    - assert:
        resource: {apiVersion: v1, kind: Pod, metadata: {name: old}, spec: {(fancy): null}}
  - name: without its gate the field is dropped
    try:
    - upgrade: {to: ($path.to)}
    - create:
        resource: {apiVersion: v1, kind: Pod, metadata: {name: without}, spec: {fancy: blue, containers: [*c]}}
    - assert:
        resource: {apiVersion: v1, kind: Pod, metadata: {name: without}, spec: {(fancy): null}}
  - name: with its gate it is kept, and its rule is applied
    try:
    - gates: {set: {Fancy: true}}
    - create:
        resource: {apiVersion: v1, kind: Pod, metadata: {name: long}, spec: {fancy: magenta, containers: [*c]}}
        expect:
        - check: {"(contains($error, 'spec.fancy: Too long: may not be more than 5 characters'))": true}
    - create:
        resource: {apiVersion: v1, kind: Pod, metadata: {name: with}, spec: {fancy: blue, containers: [*c]}}
    - create:
        resource: {apiVersion: scheduling.k8s.io/v1, kind: Widget, metadata: {name: ($namespace)}, value: 7}
  - name: without the gate again, an object that has the field keeps it
    try:
    - gates: {set: {Fancy: null}}
    - patch:
        resource: {apiVersion: v1, kind: Pod, metadata: {name: with, labels: {step: "4"}}}
    - assert:
        resource: {apiVersion: v1, kind: Pod, metadata: {name: with, labels: {step: "4"}}, spec: {fancy: blue}}
  - name: the audit says what the older release will lose
    try:
    - audit:
        for: ($path.from)
        resources: [pods]
        answer: ["(join('', [$path.from, ': lost: pods with']))"]
    - delete: {ref: {apiVersion: scheduling.k8s.io/v1, kind: Widget, name: ($namespace)}}
  - name: back at the older release, the field goes with the next write
    try:
    - downgrade: {to: ($path.from)}
    - patch:
        resource: {apiVersion: v1, kind: Pod, metadata: {name: with, labels: {step: "6"}}}
    - upgrade: {to: ($path.to)}
    - assert:
        resource: {apiVersion: v1, kind: Pod, metadata: {name: with}, spec: {(fancy): null}}
"""


@pytest.fixture(name="releases")
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    releases = tmp_path / "releases"
    made = enhanced()
    import_into(releases, made, tmp_path / "tree", "1.37+path")
    import_into(releases, made, tmp_path / "tree", "1.38")
    monkeypatch.setenv(ENVIRONMENT, str(releases))
    return releases


@pytest.mark.usefixtures("releases")
def test_there_and_back(tmp_path: Path):
    """A new field is dropped without its gate, kept while an object has it, and lost on the way down."""
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(SCENARIO)
    arguments = [str(scenario), "--simulate", "--jobs", "1", "--report", str(tmp_path / "report")]
    result = CliRunner().invoke(matrix, arguments, standalone_mode=False)
    cells = json.loads((tmp_path / "report" / "report.json").read_text())["cells"]

    assert [(cell["name"], cell["result"]) for cell in cells] == [
        ("there-and-back/1.36-1.37+path-1.36", "expected"),
        ("there-and-back/1.37-1.38-1.37", "expected"),
    ], result.output
