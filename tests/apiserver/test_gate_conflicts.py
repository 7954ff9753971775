"""Gates that the flag takes, and with which a server does not start all the same."""

import pytest
from click.testing import CliRunner

from kubeskew.apimachinery.gates import FeatureGates, parse_overrides
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.cli import apiserver
from kubeskew.apiserver.features import gate_conflict


@pytest.mark.parametrize(
    ("text", "starts"),
    [
        ("DRAControlPlaneController=true", False),
        ("DRAControlPlaneController=true,DynamicResourceAllocation=true", True),
        ("DynamicResourceAllocation=true", True),
        ("", True),
    ],
)
def test_controllers_of_drivers_need_the_api_they_work_on(text: str, starts: bool) -> None:
    """1.31 does not start with classic DRA alone."""
    assert (gate_conflict(FeatureGates(Version(31), parse_overrides(text))) == "") is starts


def test_the_command_says_why() -> None:
    """Gates that contradict each other are wrong usage, with upstream's words."""
    arguments = ["--storage-url", "sqlite://", "--emulated-version", "1.31"]
    result = CliRunner().invoke(apiserver, [*arguments, "--feature-gates", "DRAControlPlaneController=true"])

    assert result.exit_code == 2
    text = "DRAControlPlaneController feature requires DynamicResourceAllocation feature to be enabled"
    assert text in result.output
