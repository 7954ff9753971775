"""The example projects: each is run as its README says, and the how-to shows what is run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.people, pytest.mark.cluster, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/test_*.py"))
SHOWN = re.compile(r'```python title="(\S+)"\n(.*?)```', re.DOTALL)


def test_there_are_examples():
    """An operator, a driver and a controller are shown."""
    assert [path.name for path in EXAMPLES] == ["dra-driver", "kopf-operator", "kr8s-controller"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_passes(example: Path, find_kubectl, tmp_path: Path):
    """An example's tests pass in its directory, with no plugin of pytest but ours."""
    options = ["-q", "-c", os.devnull, "--rootdir=.", f"--basetemp={tmp_path / 'base'}"]
    plugins = ["-p", "no:cacheprovider", "-p", "kubeskew.testing.pytest_plugin"]
    command = [sys.executable, "-m", "pytest", *options, *plugins]
    environment = {
        **os.environ,
        "KUBECTL": str(find_kubectl("1.36")),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(command, cwd=example, env=environment, capture_output=True, text=True, timeout=280)

    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("copied", "ours"),
    [("dra.proto", "dra_v1.proto"), ("registration.proto", "plugin_registration_v1.proto")],
)
def test_the_driver_speaks_the_kubelets_protocol(copied: str, ours: str):
    """The example is a project of its own, so it has copies of the protocols: they are the kubelet's."""
    example, messages = ROOT / "examples" / "dra-driver", ROOT / "kubelet" / "protocols" / "messages"
    assert (example / copied).read_text() == (messages / ours).read_text()


def test_the_how_to_shows_the_example():
    """The code in docs/testing.md is that of the example, which the test above runs."""
    shown = dict(SHOWN.findall((ROOT / "docs" / "testing.md").read_text()))
    example = ROOT / "examples" / "kopf-operator"

    assert {name: text for name, text in shown.items() if (example / name).exists()} == {
        name: (example / name).read_text() for name in ("conftest.py", "test_upgrade.py")
    }
