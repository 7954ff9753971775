"""The wheel: built twice without network, and used in a virtual environment of its own."""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = [pytest.mark.people, pytest.mark.cluster, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[2]
LARGEST_BYTES = 15_000_000
PACKAGES = (
    "apimachinery", "apiserver", "conformance", "controllers",
    "kubelet", "kubeskew", "metricsserver", "migrations", "scheduler", "simulation",
)  # fmt: skip


def run(*command: object, cwd: Path, umask: int = -1, user: int | None = None, **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={"PATH": os.environ["PATH"], **environment},
        umask=umask,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
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
        run(ROOT / "hack" / "tools" / "build-wheel", directory, cwd=ROOT, umask=umask, **environment)
        made += directory.glob("*.whl")
    return made


def test_two_builds_are_equal(wheels: list[Path]):
    """A wheel that is built again has the same bytes, and no more than people like to download."""
    first, second = wheels

    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()
    assert first.stat().st_size <= LARGEST_BYTES


def test_an_interpreter_that_is_not_there_is_named(tmp_path: Path):
    """In a fresh checkout, which has no virtual environment yet, one line says what to do."""
    built = subprocess.run(
        [ROOT / "hack" / "tools" / "build-wheel", tmp_path / "wheel"],
        env={"PATH": os.environ["PATH"], "PYTHON": "no-such-python"},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert built.returncode == 2
    assert built.stderr.startswith("hack/tools/build-wheel: there is no no-such-python: `make ")
    assert built.stderr.count("\n") == 1


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
    packages = install(wheels[0], root, sys.executable)
    (root / "home").mkdir()
    before = written(root)
    for path in (root / "home", *packages.rglob("*"), packages):
        path.chmod(path.stat().st_mode & ~0o222)
    yield root
    for path in (packages, *packages.rglob("*"), root / "home"):
        path.chmod(path.stat().st_mode | 0o200)
    assert written(root) == before  # root may write anywhere, so that permissions alone show nothing


def install(wheel: Path, root: Path, interpreter: str) -> Path:
    """Makes the virtual environment; returns the directory of its packages."""
    python = root / "venv" / "bin" / "python"
    run(interpreter, "-m", "venv", "--without-pip", root / "venv", cwd=root)
    (packages,) = (root / "venv" / "lib").glob("python*/site-packages")
    present = [path for path in sys.path if Path(path).name == "site-packages"]
    (packages / "present.pth").write_text("\n".join(present))
    pip = ("-m", "pip", "--disable-pip-version-check", f"--python={python}", "install", "-q", "--no-index")
    run(sys.executable, *pip, "--no-deps", wheel, cwd=root)
    return packages


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
    # -B: pytest keeps the plugins that it rewrites next to them, where it may, and root may
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


@dataclass(frozen=True)
class OtherUser:
    """A user other than root, of whom the system knows nothing but the number, as containers have them. Of
    its home it may write nothing, nor of the installation: only to `work`."""

    uid: int
    root: Path

    @property
    def work(self) -> Path:
        return self.root / "work"

    def run(self, *command: object, **environment: str) -> str:
        """Runs a command of the installation, with a home unless another environment is given."""
        first, *rest = command
        words = (self.root / "venv" / "bin" / str(first), *rest)
        return run(*words, cwd=self.work, user=self.uid, **(environment or {"HOME": str(self.root / "home")}))


@pytest.fixture(scope="module")
def other_user(wheels: list[Path]) -> Iterator[OtherUser]:
    """The wheel, installed for somebody else. Skipped where we are not root: the other tests of this file
    then run without root anyway."""
    if os.geteuid() != 0:
        pytest.skip("only root can run commands as another user; these tests run as one already")
    known = {entry.pw_uid for entry in pwd.getpwall()}
    uid = next(number for number in range(50_000, 60_000) if number not in known)
    root = Path(tempfile.mkdtemp(prefix="kubeskew-user-"))  # pytest's own directories are closed to others
    try:
        root.chmod(0o755)
        for name in ("home", "work"):
            (root / name).mkdir(mode=0o755)
        os.chown(root / "work", uid, uid)
        install(wheels[0], root, interpreter_for(uid, root))
        yield OtherUser(uid, root)
        assert [*(root / "home").iterdir()] == []
    finally:
        shutil.rmtree(root)


def interpreter_for(uid: int, root: Path) -> str:
    """Returns an interpreter that the user may run, and that reads the packages which the tests have."""
    packages = [path for path in sys.path if Path(path).name == "site-packages"]
    imports = f"import sys; sys.path += {packages}; import grpc, uvloop, httptools, pytest"
    minor = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for found in (sys.executable, shutil.which(minor, path="/usr/local/bin:/usr/bin")):
        if found is None:
            continue
        try:
            run(found, "-c", imports, cwd=root, user=uid)
        except (OSError, AssertionError):
            continue
        return found
    pytest.skip(f"no user but root can run {sys.executable}, nor another {minor} with its packages")


def test_another_user_has_a_cluster(other_user: OtherUser, find_kubectl: Callable[[str], Path]):
    """Without root and in a home that is read-only, a cluster starts, answers kubectl and moves."""
    home = {"HOME": str(other_user.root / "home"), "KUBECONFIG": str(other_user.work / "mine" / "kubeconfig")}
    kubectl = find_kubectl("1.36").resolve()
    other_user.run("kubeskew", "--state-dir", "mine", "up", "--version", "1.35")
    try:
        assert "node-1" in run(kubectl, "get", "nodes", cwd=other_user.work, user=other_user.uid, **home)
        other_user.run("kubeskew", "--state-dir", "mine", "upgrade", "--to", "1.36")
        assert "v1.36" in run(kubectl, "version", cwd=other_user.work, user=other_user.uid, **home)
    finally:
        other_user.run("kubeskew", "--state-dir", "mine", "down", "--purge")


def test_another_user_runs_cells(other_user: OtherUser):
    """Cells of processes and simulated ones run as another user, whose report is the user's own."""
    cells = other_user.run(
        "kubeskew", "matrix", "--profile", "first", "--simulate", "--compare", "--jobs", "1"
    )
    assert "2 passed, 0 failed" in cells
    chosen = ("kep-5004/upgrade-downgrade", "--only", "*/explicit/1.35-1.36-1.35", "--report", "report")
    assert "1 passed, 0 failed" in other_user.run("kubeskew", "run", *chosen)
    assert (other_user.work / "report" / "index.html").stat().st_uid == other_user.uid


def test_another_user_runs_tests(other_user: OtherUser):
    """The fixture gives another user a cluster, also where bytecode cannot be kept."""
    (other_user.work / "test_upgrade.py").write_text(
        "def test_it_is_there(kubeskew_cluster):\n"
        "    kubeskew_cluster.upgrade('1.37')\n"
        "    assert kubeskew_cluster.client.get('v1', 'Node', 'node-1')\n"
    )
    done = other_user.run(
        "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", "base", "test_upgrade.py",
        HOME=str(other_user.root / "home"), PYTHONDONTWRITEBYTECODE="1",
    )  # fmt: skip
    assert "1 passed" in done


def test_a_user_without_a_home_has_a_cluster(other_user: OtherUser):
    """A cluster starts where nothing says where the home is, as in a container of a user by number."""
    kubeskew = ("kubeskew", "--state-dir", "homeless")
    other_user.run(*kubeskew, "up", "--nodes", "1", PYTHONDONTWRITEBYTECODE="1")
    other_user.run(*kubeskew, "down", "--purge", PYTHONDONTWRITEBYTECODE="1")
    assert not (other_user.work / "homeless").exists()
