"""Commands and fixtures import little, for users wait while they do."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("modules", "spared"),
    [
        (
            "kubeskew.cluster.cluster, kubeskew.cluster.platform, kubeskew.cli.commands.lifecycle",
            "sqlalchemy",
        ),
        ("kubeskew.testing.pool, kubeskew.cluster.platform", "kubeskew.scheduler"),
        ("kubeskew.shim.api_server", "kubeskew.apiserver.structuralschema"),
        ("kubeskew.shim.api_server", "kubeskew.apiserver.registry"),
    ],
)
def test_a_start_imports_nothing_that_others_need(modules: str, spared: str):
    """SQLAlchemy, by which the API server writes the log, would be a third of what `up` imports; the
    scheduler, which judging needs, nearly as much of what the fixture does; schemas and the registry, of
    which a real API server has its own, half of what its shim does."""
    program = f"import sys, {modules}; print({spared!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"
