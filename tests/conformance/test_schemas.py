"""The JSON Schemas of cluster files and scenarios take and refuse what the readers do."""

import copy
import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from kubeskew.apimachinery.schema_checks import SchemaError, check
from kubeskew.apimachinery.yaml_files import load_checked
from kubeskew.cluster.clusterfile import CLUSTER_KEYS, DRIVER_KEYS, NODE_KEYS, REFERENCES, object_of
from kubeskew.cluster.config import parse as parse_cluster
from kubeskew.cluster.failures import UserError
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.loader import parse
from kubeskew.conformance.matrix import bundled

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def loaded(path: str) -> Any:
    """The module in a file of the project, which need not be in a package."""
    spec = importlib.util.spec_from_file_location(f"{Path(path).stem}_for_schemas", ROOT / path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


schemas = loaded("hack/documents/schemas.py")
test_cluster_checks = loaded("tests/conformance/test_cluster_checks.py")
test_scenario_files = loaded("tests/conformance/test_scenario_files.py")
test_cluster_file = loaded("tests/kubeskew/cluster/test_cluster_file.py")
example = loaded("tests/conformance/test_scenario_documents.py").example
CLUSTER, SCENARIO = (
    jsonschema_rs.Draft202012Validator(json.loads((DOCS / f"schemas/{name}.schema.json").read_text()))
    for name in ("cluster", "scenario")
)
# What the readers say of a file whose shape is wrong; all else is about names and what they stand for.
SHAPE = re.compile(
    r"unknown key|Chainsaw's (key|operation)|unknown operation|is not a duration|"
    r"expected (a|one|either|`|the n|two|cpu|true|kind)|is not a Kubernetes version|is not supported: choose|"
    r"there is no known bug|unrecognized feature gate: NoSuchGate$"
)
# What a schema of one document cannot say.
BEYOND = re.compile(
    r"expected one (Test|Scenario header|document)|expected an? expression|forEach\.\w+: expected a list|"
    r"expected two branches or more, found \["
)


def cases(test: Any) -> list[tuple[Any, ...]]:
    """The cases of a parametrized test."""
    (mark,) = [mark for mark in test.pytestmark if mark.name == "parametrize"]
    return list(mark.args[1])


def refused(text: str) -> str:
    """Returns the refusal of a text by the reader of scenarios; empty if it takes it."""
    try:
        parse(list(yaml.safe_load_all(text)), "file")
    except ScenarioError as error:
        return str(error)
    return ""


def of_shape(message: str) -> bool:
    return bool(SHAPE.search(message)) and not BEYOND.search(message)


WRONG_FILES = [
    *(case[0] for case in cases(test_scenario_files.test_what_is_wrong_is_said)),
    *(
        test_scenario_files.TEST + f"spec: {{steps: [{{try: [{case[0]}]}}]}}"
        for case in cases(test_scenario_files.test_values_that_cannot_be_meant_are_refused)
    ),
]


def test_the_files_are_as_the_readers_have_them():
    """The committed files are those that `make schemas` writes."""
    for path, text in schemas.files().items():
        assert path.read_text() == text, f"{path.name}: run `make schemas`"


@pytest.mark.parametrize("name", ["cluster", "scenario"])
def test_they_are_schemas(name: str):
    """Both are schemas of draft 2020-12, whose references lead somewhere."""
    schema = json.loads((DOCS / f"schemas/{name}.schema.json").read_text())

    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert jsonschema_rs.meta.is_valid(schema)
    for found in re.findall(r'"\$ref": "#/\$defs/(\w+)"', json.dumps(schema)):
        assert found in schema["$defs"]


@pytest.mark.parametrize("name", list(bundled()))
def test_every_scenario_validates(name: str):
    """Every document of the scenarios that come along is taken."""
    for document in load_checked(bundled()[name].read_text()):
        if document is not None:
            assert [error.message for error in SCENARIO.iter_errors(document)] == []


@pytest.mark.parametrize("text", WRONG_FILES)
def test_a_wrong_shape_is_refused(text: str):
    """A file that the grammar refuses for its shape has a document that the schema refuses."""
    message = refused(text)
    assert message
    documents = [document for document in yaml.safe_load_all(text) if document is not None]
    valid = all(SCENARIO.is_valid(document) for document in documents)

    assert not (valid and of_shape(message)), message


def test_wrong_shapes_are_among_the_wrong_files():
    """Most of the wrong files are wrong in their shape, so that the test above says something."""
    assert sum(of_shape(refused(text)) for text in WRONG_FILES) >= 20


def renamed(value: Any) -> Iterator[Any]:
    """Yields the value with one key misspelt, for each key of it at any depth."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield {f"{name}x" if name == key else name: each for name, each in value.items()}
            for changed in renamed(below):
                yield {**value, key: changed}
    elif isinstance(value, list):
        for at, below in enumerate(value):
            for changed in renamed(below):
                yield [*value[:at], changed, *value[at + 1 :]]


def test_misspelt_keys_of_operations_are_refused():
    """Of each operation, the schema refuses every misspelt key that the grammar refuses."""
    wrong = 0
    for operation in example("An example of each:"):
        for changed in renamed(operation) if operation else ():
            test = {
                "apiVersion": "chainsaw.kyverno.io/v1alpha1",
                "kind": "Test",
                "spec": {"steps": [{"try": [changed]}]},
            }
            message = refused(yaml.safe_dump(test))
            if of_shape(message):
                assert not SCENARIO.is_valid(test), f"{changed}: {message}"
                wrong += 1
    assert wrong > 100


def test_misspelt_keys_of_headers_are_refused():
    """Of the example of a header, the schema refuses every misspelt key that the grammar refuses."""
    (test,) = yaml.safe_load_all(test_scenario_files.TEST + "spec: {steps: [{name: a, try: []}]}")
    mark = {"when": "(`true`)", "steps": ["a"], "reason": "r"}
    header = {
        "apiVersion": "kubeskew.io/v1alpha1",
        "kind": "Scenario",
        "spec": {
            "cluster": yaml.safe_load(test_cluster_file.EXAMPLE),
            "parameters": {"v": ["a"]},
            "expectedFailures": [{**mark, "found": "text", "source": "KEP-1"}],
        },
    }
    assert refused(yaml.safe_dump_all([header, test])) == ""
    assert SCENARIO.is_valid(header)
    for changed in renamed(header):
        if of_shape(refused(yaml.safe_dump_all([changed, test]))):
            assert not SCENARIO.is_valid(changed), changed


def cluster_refused(text: str) -> str:
    try:
        parse_cluster(yaml.safe_load(text), "file")
    except UserError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "text",
    [
        test_cluster_file.EXAMPLE,
        "",
        "{ha: 2, nodes: null, featureGates: null, components: {kubelet/node-1: {server: any}}}",
        "components: {apiserver: {version: 1.35.2}, controller-manager: {bugs: {k8s-134773: off}}}",
        "version: 1.25+kep3063",
        "nodes: [{drivers: [{name: d, profile: a100-mig, pluginAPIs: [v1]}], kubeReserved: {cpu: 1}}]",
        "nodes: [{drivers: [{name: d, syncDelay: 0.5m}]}, {drivers: [{name: d, syncDelay: 30s}, {name: e}]}]",
        "nodes: [{drivers: [{name: d, syncDelay: 0s}]}, {drivers: [{name: d}]}, {drivers: null}]",
        "version: '1.30'\nnodes: [{drivers: [{name: d, controller: {shareable: true, userLimit: -1}}]}]",
    ],
)
def test_cluster_files_validate(text: str):
    """A file that the reader of cluster files takes is taken by the schema."""
    assert cluster_refused(text) == ""
    assert [error.message for error in CLUSTER.iter_errors(yaml.safe_load(text))] == []


@pytest.mark.parametrize(
    "text",
    [
        *(case[0] for case in cases(test_cluster_file.test_what_is_wrong_is_said)),
        *(case[0] for case in cases(test_cluster_file.test_bugs_and_patches_that_never_were_are_refused)),
        *(case[0] for case in cases(test_cluster_checks.test_clusters_that_cannot_be_started_are_refused)),
    ],
)
def test_wrong_cluster_files_are_refused(text: str):
    """A cluster file that the reader refuses for its shape is refused by the schema."""
    message = cluster_refused(text)

    if of_shape(message):
        assert not CLUSTER.is_valid(yaml.safe_load(text)), message


def test_misspelt_keys_of_cluster_files_are_refused():
    """The schema refuses every misspelt key of a cluster file that the reader refuses."""
    found = 0
    for changed in renamed(yaml.safe_load(test_cluster_file.EXAMPLE)):
        if of_shape(cluster_refused(yaml.safe_dump(changed))):
            assert not CLUSTER.is_valid(changed), changed
            found += 1
    assert found >= 8


def places(value: Any) -> Iterator[Any]:
    """Yields the value with something else in each of its places."""
    yield from (None, True, 0, -1, 1.5, "", "x", [], ["x"], {}, {"x": 1})
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in below:
        for changed in places(member):
            copied = copy.copy(value)
            copied[key] = changed
            yield copied


def shape_refused(value: Any) -> bool:
    try:
        check({} if value is None else value, object_of(CLUSTER_KEYS), REFERENCES)
    except SchemaError:
        return True
    return False


def test_the_reader_refuses_what_the_schema_refuses():
    """The check by the table of keys is that of JSON Schema, but for names, versions and patterns."""
    schema = {**object_of(CLUSTER_KEYS), "type": ["object", "null"], "$defs": {}}
    schema["$defs"] = {reference.rpartition("/")[2]: loose for reference, loose in REFERENCES.items()}
    schema["$defs"] |= {"version": {}, "component": {}}
    validator = jsonschema_rs.Draft202012Validator(schema)
    whole = {key: yaml.safe_load(value.example)[key] for key, value in CLUSTER_KEYS.items()}
    node = {key: yaml.safe_load(value.example)[key] for key, value in NODE_KEYS.items()}
    driver = {key: yaml.safe_load(value.example)[key] for key, value in DRIVER_KEYS.items()}
    whole["nodes"] = [{**node, "drivers": [driver]}]
    every = [*places(whole)]
    different = [
        changed
        for changed in every
        if shape_refused(changed) == validator.is_valid(changed)
        and not any("pattern" in str(error.kind).lower() for error in validator.iter_errors(changed))
    ]
    assert different == []
    assert len(every) > 400


def test_every_key_of_a_cluster_file_is_reported():
    """The page has every key, and its examples are what the reader takes."""
    page = (DOCS / "cluster-file.md").read_text()
    for keys in (schemas.CLUSTER_KEYS, schemas.COMPONENT_KEYS, schemas.NODE_KEYS, schemas.DRIVER_KEYS):
        for name, key in keys.items():
            assert f"| `{name}` | {key.meaning}" in page
            assert [*yaml.safe_load(key.example)] == [name]
    for name, key in schemas.CLUSTER_KEYS.items():
        assert cluster_refused(key.example) == "", name
    for key in schemas.NODE_KEYS.values():
        assert cluster_refused(yaml.safe_dump({"nodes": [yaml.safe_load(key.example)]})) == ""
