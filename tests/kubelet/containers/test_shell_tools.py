"""The fake containers' shell and tools against what busybox, bash and GNU tools wrote."""

import json

import pytest
from recorded import DATA
from test_shell import START, run

CASES = json.loads((DATA / "shell_tools.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['shell']} {case['script'][:60]}")
def test_scripts_write_what_the_real_tools_wrote(case):
    """Standard output and exit code are those that hack/recordings/record_shell_tools.py recorded."""
    shell = "sh" if case["shell"] == "busybox" else case["shell"]
    image = "busybox" if case["shell"] == "busybox" else "ubuntu"
    simulation = run(shell, "-c", f"cd /work\n{case['script']}", directories=("/work",), image=image)
    written = [line for line in simulation.lines if line.stream == "stdout"]
    assert b"".join(line.data for line in written).decode("utf-8", "backslashreplace") == case["output"]
    assert simulation.ending.code == case["code"]
    assert simulation.ending.time >= START
