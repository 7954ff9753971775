"""The tutorial and the how-tos: every command is run, in order, and prints what is shown."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from shown_blocks import Block, Command, blocks

ROOT = Path(__file__).parents[2]
MOST_NOT_RUN = 2  # blocks of a page
SECONDS = 120  # of a command


def pages() -> list[str]:
    """Returns the documents of the site's sections for newcomers, but for the examples, which have tests."""
    sections = {name: part for each in navigation() for name, part in each.items()}
    named = [*sections["Start"], *sections["How-to"]]
    return [name for name in named if isinstance(name, str)]


def navigation() -> list[dict[str, list[str]]]:
    found: list[dict[str, list[str]]] = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    return found


class Shell:
    """Runs commands in one bash, in an empty directory, with the repository at ~/kubeskew."""

    def __init__(self, directory: Path, kubectl: Path) -> None:
        self.directory = directory / "work"
        self._script, self._output, self._ended = (directory / name for name in ("script", "output", "ended"))
        for folder in (self.directory, directory / "home", directory / "pytest"):
            folder.mkdir()
        (directory / "home" / "kubeskew").symlink_to(ROOT)
        os.mkfifo(self._ended)
        self._statuses = os.open(self._ended, os.O_RDWR)
        paths = (Path(sys.executable).parent, kubectl.parent, os.environ["PATH"])
        self._bash = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=self.directory,
            env={
                "HOME": str(directory / "home"),
                "PATH": os.pathsep.join(map(str, paths)),
                "PYTHONDONTWRITEBYTECODE": os.environ.get("PYTHONDONTWRITEBYTECODE", ""),
                "PYTHONUNBUFFERED": "1",  # what is printed and what is reported stand in their order
                "PYTEST_ADDOPTS": "-p no:cacheprovider -p no:xdist -p no:cov",
                "PYTEST_DEBUG_TEMPROOT": str(directory / "pytest"),
                "LANG": "C.UTF-8",
            },
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._status = 0

    def run(self, command: str) -> tuple[int, str]:
        """Returns the exit status of a command and what it printed. Raises TimeoutError."""
        assert self._bash.stdin is not None
        self._script.write_text(f"(exit {self._status})\n{command}\n")
        step = f". {self._script} > {self._output} 2>&1 < /dev/null; echo $? > {self._ended}\n"
        self._bash.stdin.write(step)
        self._bash.stdin.flush()
        if not select.select([self._statuses], [], [], SECONDS)[0]:
            raise TimeoutError(f"{command}: runs for more than {SECONDS} seconds: {self._output.read_text()}")
        self._status = int(os.read(self._statuses, 10))
        return self._status, self._output.read_text()

    def close(self) -> None:
        """Ends what was started and not ended: the clusters, and what runs next to the shell."""
        for record in list(self.directory.parent.rglob("state.json")):
            down = [sys.executable, "-m", "kubeskew", "--state-dir", str(record.parent), "down", "--purge"]
            subprocess.run(down, check=True, capture_output=True, timeout=SECONDS)
        os.killpg(self._bash.pid, signal.SIGKILL)
        self._bash.communicate()
        os.close(self._statuses)


@pytest.fixture
def shell(tmp_path: Path, find_kubectl) -> Iterator[Shell]:
    shell = Shell(tmp_path, find_kubectl("1.36"))
    yield shell
    shell.close()


@pytest.mark.people
@pytest.mark.cluster
@pytest.mark.timeout(400)
@pytest.mark.parametrize("page", [page for page in pages() if "```" in (ROOT / "docs" / page).read_text()])
def test_a_page_does_what_it_shows(page: str, shell: Shell):
    """Files are written and commands run as the page has them; each prints what is shown, and fails only
    where the next one asks for its status."""
    for block in blocks((ROOT / "docs" / page).read_text()):
        if block.reason:
            continue
        if block.title:
            write(block, shell.directory)
        else:
            run(block, shell, page)


def write(block: Block, directory: Path) -> None:
    path = directory / block.title
    assert path.resolve().is_relative_to(directory.resolve())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(block.text)


def run(block: Block, shell: Shell, page: str) -> None:
    commands = list(block.commands())
    for command, following in zip(commands, [*commands[1:], None], strict=True):
        status, printed = shell.run(command.text)
        where = f"docs/{page}:{command.line}: $ {command.text}"
        asked = following is not None and following.text == "echo $?"
        assert status == 0 or asked, f"{where}\nended with {status}:\n{printed}"
        missing = command.missing(printed)
        assert not missing, (
            f"{where}\nprinted:\n{printed}\nwithout what the page shows in its place:\n{missing}"
        )


@pytest.mark.parametrize("page", pages())
def test_what_is_not_run_says_why(page: str):
    """A block that is not run has a reason, and a page has few of them."""
    reasons = [block.reason for block in blocks((ROOT / "docs" / page).read_text()) if block.reason]
    assert len(reasons) <= MOST_NOT_RUN


REFUSED = {
    "```python\nprint()\n```": "nobody runs",
    "```console\nls\n```": "begins with",
    "Run\n\n    ls\n": "indented",
    "~~~\n```py title='a'\n": "not the beginning",
}


@pytest.mark.parametrize("text", REFUSED)
def test_code_that_nobody_runs_is_refused(text: str):
    """A block that is neither a file nor a console, nor says why it is not run, is an error."""
    with pytest.raises(ValueError, match=REFUSED[text]):
        [list(block.commands()) for block in blocks(text)]


def test_what_is_shown_is_compared():
    """Lines stand in their order, with any lines or any text for `…`, and columns of any width."""
    assert Command("ls", 1).missing("anything\n") == ""
    command = Command("ls", 1, ["NAME   AGE", "a  … s", "…", "end"])
    assert command.missing("NAME      AGE\na    3.4 s\nx\ny\nend\n") == ""
    assert command.missing("NAME   AGE\na 3 s\nend\n") == ""
    assert command.missing("NAME   AGE\na 3 s\nx\n") == "end"
    assert command.missing("NAME   AGE\nb 3 s\nend\n") == "a  … s"
    assert command.missing("NAME   AGE\na 3 s\nend\nmore\n") == "the end"
