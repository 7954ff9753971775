"""The wheel: built twice without network, and used in a virtual environment of its own."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.people, pytest.mark.cluster, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[2]
LARGEST_BYTES = 15_000_000
PACKAGES = (
    "apimachinery", "apiserver", "conformance", "controllers",
    "kubelet", "kubeskew", "metricsserver", "migrations", "scheduler", "simulation",
)  # fmt: skip


def run(*command: object, cwd: Path, umask: int = -1, **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={"PATH": os.environ["PATH"], **environment},
        umask=umask,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stderr}{done.stdout}"
    return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two wheels, of builds with other permissions and another order of sets."""
    made = []
    for number, umask in ((1, 0o002), (2, 0o077)):
        directory = tmp_path_factory.mktemp("wheel")
        environment = {
            "PYTHONHASHSEED": str(number),
            "HOME": str(directory / "home"),
            "PYTHON": sys.executable,
        }
        run(ROOT / "hack" / "build-wheel", directory, cwd=ROOT, umask=umask, **environment)
        made += directory.glob("*.whl")
    return made


def test_two_builds_are_equal(wheels: list[Path]):
    """A wheel that is built again has the same bytes, and no more than people like to download."""
    first, second = wheels

    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()
    assert first.stat().st_size <= LARGEST_BYTES


def test_the_wheel_has_every_file(wheels: list[Path]):
    """Whatever is in the packages' folders is in the wheel, below the one package, and nothing else."""
    listed = run("git", "ls-files", *PACKAGES, cwd=ROOT).splitlines()
    files = [name for name in listed if not (ROOT / name).is_symlink()]
    expected = {name if name.startswith("kubeskew/") else f"kubeskew/{name}" for name in files}
    found = {name for name in zipfile.ZipFile(wheels[0]).namelist() if ".dist-info/" not in name}

    assert found == expected


@pytest.fixture(scope="module")
def installed(wheels: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A virtual environment with the wheel, and what it depends on from that of the tests; nothing in it, or
    in the user's home, may be written to."""
    root = tmp_path_factory.mktemp("installed")
    python = root / "venv" / "bin" / "python"
    run(sys.executable, "-m", "venv", "--without-pip", root / "venv", cwd=root)
    (packages,) = (root / "venv" / "lib").glob("python*/site-packages")
    present = [path for path in sys.path if Path(path).name == "site-packages"]
    (packages / "present.pth").write_text("\n".join(present))
    pip = ("-m", "pip", "--disable-pip-version-check", f"--python={python}", "install", "-q", "--no-index")
    run(sys.executable, *pip, "--no-deps", wheels[0], cwd=root)
    (root / "home").mkdir()
    before = written(root)
    for path in (root / "home", *packages.rglob("*"), packages):
        path.chmod(path.stat().st_mode & ~0o222)
    yield root
    for path in (packages, *packages.rglob("*"), root / "home"):
        path.chmod(path.stat().st_mode | 0o200)
    assert written(root) == before  # root may write anywhere, so that permissions alone show nothing


def written(root: Path) -> dict[str, float]:
    return {str(path): path.stat().st_mtime for path in sorted(root.rglob("*")) if not path.is_dir()}


def test_it_is_the_wheel_that_runs(installed: Path, tmp_path: Path):
    """The commands, their data and the plugins of pytest come from the virtual environment."""
    binaries = installed / "venv" / "bin"
    home = {"HOME": str(installed / "home")}
    where = "import kubeskew, kubeskew.apiserver; print(kubeskew.__file__, kubeskew.apiserver.__file__)"

    assert run(binaries / "kubeskew", "--version", cwd=tmp_path, **home) == "kubeskew, version 0.1.0\n"
    files = run(binaries / "python", "-c", where, cwd=tmp_path, **home).split()
    assert all(file.startswith(str(installed / "venv")) for file in files)
    cell = ("matrix", "--profile", "first", "--simulate", "--jobs", "1", "--compare")
    assert "2 passed, 0 failed" in run(binaries / "kubeskew", *cell, cwd=tmp_path, **home)
    # -B: pytest keeps the plugins that it rewrites beside them, where it may, and root may
    asked = (binaries / "python", "-B", "-m", "pytest", "--markers", "-p", "no:cacheprovider")
    markers = run(*asked, cwd=tmp_path, **home)
    assert "@pytest.mark.kubeskew(versions=" in markers


def test_a_cluster_of_the_wheel(installed: Path, tmp_path: Path):
    """A cluster starts, moves and ends in a directory of the user's, and leaves nothing."""
    kubeskew = (installed / "venv" / "bin" / "kubeskew", "--state-dir", tmp_path / "state")
    home = {"HOME": str(installed / "home")}
    run(*kubeskew, "up", "--version", "1.35", "--nodes", "1", cwd=tmp_path, **home)
    try:
        run(*kubeskew, "upgrade", "--to", "1.36", cwd=tmp_path, **home)
        assert "scheduler" in run(*kubeskew, "status", cwd=tmp_path, **home)
    finally:
        run(*kubeskew, "down", "--purge", cwd=tmp_path, **home)
    assert [*tmp_path.iterdir()] == []
