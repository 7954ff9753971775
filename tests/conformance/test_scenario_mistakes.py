"""Mistakes of those who write a scenario: one line with file and place, before any cluster is started."""

from pathlib import Path

import pytest
from cell_in_memory import Control, run

from kubeskew.cli.main import main

TEST = """
apiVersion: chainsaw.kyverno.io/v1alpha1
kind: Test
metadata: {name: mine}
spec:
  steps:
  - name: a
    try:
    - %s
"""

BAD_AUTHORITY = """
current-context: a
contexts: [{name: a, context: {cluster: c}}]
clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1', certificate-authority-data: eA==}}]
"""


def refusal(capsys: pytest.CaptureFixture[str], path: Path, *flags: str) -> str:
    """Returns the one line that the command says of the file, and checks that it exits with 2."""
    with pytest.raises(SystemExit) as ended:
        main(["run", str(path), *flags])
    text = capsys.readouterr().err
    assert (ended.value.code, text.count("\n")) == (2, 1), text
    return text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty: expected a chainsaw.kyverno.io/v1alpha1 Test"),
        ("# nothing", "the file is empty"),
        ("apiVersion: kuttl.dev/v1beta1\nkind: TestStep", "Test, found kuttl.dev/v1beta1 TestStep"),
        ("- a", "Test, found ['a']"),
        (TEST % "{}" + "\t- {}", "indent with spaces, not tabs"),
        (TEST.replace("try", "tri") % "{}", "steps[0]: unknown key tri; known are name, "),
    ],
)
def test_a_file_that_is_no_scenario(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
):
    """The line says what was found instead, as it stands in the file."""
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    line = refusal(capsys, path)
    assert line.startswith(f"kubeskew: {path}:")
    assert message in line


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (
            "assert: {resource: {apiVersion: v1, kind: Podd}}",
            "no release has a Podd in v1; did you mean Pod?",
        ),
        ("error: {resource: {apiVersion: apps/v2, kind: Pod}}", "serves apps/v2; known are apps/v1"),
        ("apply: {resource: {apiVersion: 1, kind: Pod}}", "expected texts as `apiVersion` and `kind`"),
        ("apply: {file: none.yaml}", "apply.file: there is no file "),
        ("proxy: {apiVersion: v1}", "Chainsaw's operation proxy is not supported here: write a `script`"),
        ("apply: {file: 'https://a/b.yaml'}", "Chainsaw's files at a URL are not supported here: put"),
        ("apply: {template: false, resource: {apiVersion: v1, kind: Pod}}", "`template: false` is not"),
        ("script: {content: a, cluster: b}", "Chainsaw's key cluster is not supported here: name a context"),
        ("script: {content: a, bindings: [{name: b, value: ($test.id)}]}", "Chainsaw's binding $test is not"),
        ("script: {content: a, outputs: [{name: (b), value: c}]}", "Chainsaw's computed names are not"),
        ("assert: {resource: {($stdout): a}}", "nothing is bound to $stdout here"),
        ("assert: {resource: {(x_k8s_list(a)): b}}", "Chainsaw's function x_k8s_list is not supported here"),
        ("assert: {resource: {(namespace + `1`): b}}", "Chainsaw's arithmetic (+) is not supported here"),
        ("assert: {resource: {(cel; a): b}}", "Chainsaw's CEL is not supported here: write JMESPath"),
        ("sleep: {duration: }", "sleep.duration: expected a duration such as 30s or 1m30s, found None"),
        ("script: {content: 'true', timeout: }", "script.timeout: expected a duration"),
        ('sleep: {duration: "1s\\n"}', "sleep.duration: expected a duration"),
        ("delete: {gracePeriodSeconds: 0}", "delete: expected either `ref` or `file`"),
        ("get: {apiVersion: v1, kind: Pod, format: wide}", "format: expected json or yaml, found 'wide'"),
        (
            "wait: {apiVersion: v1, kind: Pod, for: {jsonPath: {path: '{.items[?(@.a)]}'}}}",
            "jsonPath.path: expected a path of names",
        ),
        ("assert: {resource: {apiVersion: v1, kind: Pod, status: {(length(a): 1}}}", "Incomplete expression"),
    ],
)
def test_an_operation_that_cannot_be_meant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], operation: str, message: str
):
    """The line names the place in the file and what to write."""
    path = tmp_path / "mine.yaml"
    path.write_text(TEST % operation)
    line = refusal(capsys, path)
    assert line.startswith(f"kubeskew: {path}:9: spec.steps[0].try[0]")
    assert message in line


def test_a_directory_is_no_scenario(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The line says so, instead of listing the scenarios that come along."""
    assert (
        refusal(capsys, tmp_path)
        == f"kubeskew: {tmp_path} is a directory without a chainsaw-test.yaml: name a scenario's file in it\n"
    )


async def test_durations_may_be_expressions():
    """A timeout or a sleep can depend on the cell's parameters."""
    result = await run(
        """
  - name: waits
    try:
    - sleep: {duration: ($pause)}
    - error: {resource: {apiVersion: v1, kind: Pod}, timeout: ($pause)}
""",
        Control(),
        '{cluster: {}, parameters: {pause: ["3s"]}}',
    )
    assert (result.outcome, result.failure) == ("passed", "")


@pytest.mark.parametrize(
    ("kubeconfig", "message"),
    [
        ("", "is empty"),
        ("{current-context: a}", "has no context 'a'"),
        (BAD_AUTHORITY, "cannot be used"),
    ],
)
def test_a_kubeconfig_that_no_cell_could_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kubeconfig: str, message: str
):
    """The file is read before the first cell runs, with the credentials in it."""
    scenario, config = tmp_path / "mine.yaml", tmp_path / "config"
    scenario.write_text(TEST % "sleep: {duration: 1s}")
    config.write_text(kubeconfig)

    text = refusal(capsys, scenario, "--kubeconfig", str(config))
    assert text.startswith(f"kubeskew: --kubeconfig {config} cannot be used: ")
    assert message in text
