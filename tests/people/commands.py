"""Runs kubeskew's commands as a user does."""

import subprocess
import sys
from pathlib import Path


def kubeskew(state: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a command on the cluster of a state directory; raises CalledProcessError."""
    command = [sys.executable, "-m", "kubeskew", "--state-dir", str(state), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
