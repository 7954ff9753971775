"""The recipes for CI in examples/ci: what GitHub and GitLab read, and that their steps do what they say."""

import json
import os
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from kubeskew.cli.main import cli

pytestmark = pytest.mark.people

RECIPES = Path(__file__).parents[2] / "examples" / "ci"
INSTALLING = "pip install kubeskew"

SCENARIO = """
apiVersion: kubeskew.io/v1alpha1
kind: Scenario
spec:
  cluster: {version: "1.36", nodes: []}
  parameters: {color: [red, green]}
---
apiVersion: chainsaw.kyverno.io/v1alpha1
kind: Test
metadata: {name: tiny}
spec:
  steps:
  - name: it is made
    try:
    - create: {resource: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {color: ($color)}}}
  - name: it is red
    try:
    - assert:
        resource: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {color: red}}
        timeout: 1s
"""


def read(name: str) -> dict[Any, Any]:
    return yaml.safe_load((RECIPES / name).read_text())


def commands_of(recipe: Mapping[Any, Any]) -> Iterator[str]:
    """Yields the lines that the shell runs: of GitHub's steps, or of GitLab's scripts."""
    for job in recipe.get("jobs", recipe).values():
        if isinstance(job, dict):
            yield from (step["run"] for step in job.get("steps", []) if "run" in step)
            yield from job.get("script", [])


@pytest.mark.parametrize("name", ["github-workflow.yaml", "gitlab-ci.yml"])
def test_each_command_is_one_of_ours(name: str):
    """Every line installs kubeskew, or is a command of ours with flags that it has."""
    commands = [line for line in commands_of(read(name)) if line != INSTALLING]
    assert len(commands) == 2
    for line in commands:
        program, command, *arguments = shlex.split(re.sub(r"\$\w+", "1", line))
        found = cli.get_command(click.Context(cli), command)
        assert (program, command) == ("kubeskew", "matrix")
        assert found is not None
        found.make_context(command, arguments, resilient_parsing=False)


def test_actions_get_what_the_steps_write():
    """The artifacts are the directories of the reports, under names that the last job fetches."""
    jobs = read("github-workflow.yaml")["jobs"]
    kept = [
        step["with"] for job in jobs.values() for step in job["steps"] if "artifact" in step.get("uses", "")
    ]

    assert [each["path"] for each in kept] == ["report-${{ matrix.shard }}", "reports", "report"]
    assert kept[0]["name"] == "report-${{ matrix.shard }}"
    assert kept[1]["pattern"] == "report-*"


def run(line: str, folder: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Runs a line as a runner does: in bash, which ends at the first failure."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", line],
        cwd=folder,
        env={**os.environ, "PATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "tiny.yaml").write_text(SCENARIO)
    return tmp_path


def check_report(project: Path) -> None:
    report = json.loads((project / "report" / "report.json").read_text())
    assert [(cell["name"], cell["result"]) for cell in report["cells"]] == [
        ("tiny/red", "passed"),
        ("tiny/green", "failed"),
    ]
    cases = ET.parse(project / "report" / "junit.xml").getroot()[0]
    assert [case.get("file") for case in cases] == ["scenarios/tiny.yaml"] * 2
    assert (project / "report" / "index.html").exists()


def test_the_steps_for_github_do_what_they_say(project: Path):
    """Each shard runs its cells, the last job merges the reports and annotates the step that failed."""
    jobs = read("github-workflow.yaml")["jobs"]
    shards = jobs["cells"]["strategy"]["matrix"]["shard"]
    [step] = [step for step in jobs["cells"]["steps"] if "env" in step]
    assert step["env"] == {"SHARD": "${{ matrix.shard }}", "SHARDS": "${{ strategy.job-total }}"}
    ended = [run(step["run"], project, SHARD=str(shard), SHARDS=str(len(shards))) for shard in shards]
    assert [each.returncode for each in ended] == [0, 1]

    (project / "reports").mkdir()
    for shard in shards:
        (project / f"report-{shard}").rename(project / "reports" / f"report-{shard}")
    [merging] = [line for line in commands_of({"jobs": {"report": jobs["report"]}}) if line != INSTALLING]
    merged = run(merging, project)

    assert merged.returncode == 1
    [annotation] = [line for line in merged.stdout.splitlines() if line.startswith("::")]
    line = SCENARIO.splitlines().index("  - name: it is red") + 1
    assert annotation.startswith(
        f"::error file=scenarios/tiny.yaml,line={line},title=tiny%3A it is red::tiny/green%0A"
    )
    check_report(project)


def test_the_scripts_for_gitlab_do_what_they_say(project: Path):
    """Each of the parallel jobs runs its shard, the last one makes the report that merge requests show."""
    recipe = read("gitlab-ci.yml")
    count = recipe["cells"]["parallel"]
    [script] = [line for line in recipe["cells"]["script"] if line != INSTALLING]
    numbers = [{"CI_NODE_INDEX": str(number), "CI_NODE_TOTAL": str(count)} for number in range(1, count + 1)]
    assert [run(script, project, **each).returncode for each in numbers] == [0, 1]
    [merging] = [line for line in recipe["report"]["script"] if line != INSTALLING]

    assert run(merging, project).returncode == 1
    check_report(project)
    assert recipe["report"]["artifacts"]["reports"] == {"junit": "report/junit.xml"}


def test_the_scenario_of_the_example_passes(tmp_path: Path):
    """The scenario that the recipes run as an example passes in each of its cells."""
    line = f"kubeskew matrix {RECIPES}/scenarios/*.yaml --simulate --jobs 1 --report report"
    assert run(line, tmp_path).returncode == 0
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    assert (report["passed"], len(report["cells"])) == (2, 2)
