"""A headless browser, and a real cluster to look at with it."""

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import kubeskew

CHROMIUM = Path("/usr/bin/chromium")  # Debian's

FILE = """
version: "1.35"
nodes:
- name: gpu-node
  drivers: [{name: gpu.example.com, devices: 2}]
"""


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless Chromium; without it, or without Playwright, the tests are skipped."""
    playwright = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"there is no {CHROMIUM}: `apt-get install chromium`")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def tab(browser: Any) -> Iterator[Any]:
    """A tab of 1400 pixels; any failure of its scripts fails the test."""
    failures: list[Any] = []
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    page = context.new_page()
    page.on("pageerror", lambda error: failures.append(error))
    yield page
    context.close()
    assert failures == []


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The state directory of a running cluster at 1.35 with two devices."""
    root = tmp_path_factory.mktemp("people")
    (root / "cluster.yaml").write_text(FILE)
    kubeskew(root / "state", "up", "--config", str(root / "cluster.yaml"))
    yield root / "state"
    kubeskew(root / "state", "down", "--purge")


@pytest.fixture(scope="module")
def address(state: Path) -> Iterator[str]:
    """The address that `kubeskew ui` prints, as long as it serves."""
    command = [sys.executable, "-m", "kubeskew", "--state-dir", str(state), "ui", "-o", "json"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], 60)[0], "it prints no address"
        lines = ""
        while not lines.endswith("}\n"):
            lines += process.stdout.readline()
        yield json.loads(lines)["url"]
        process.terminate()
