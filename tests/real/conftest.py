"""Real programs for tests: those of the folder KUBESKEW_BINARIES, which `make test-real` sets."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def binaries() -> Path:
    """The folder of programs by version; tests are skipped, and say so, where none is named."""
    folder = os.environ.get("KUBESKEW_BINARIES")
    if not folder:
        pytest.skip("KUBESKEW_BINARIES names no folder of real programs: make test-real BINARIES=DIR")
    return Path(folder).absolute()
