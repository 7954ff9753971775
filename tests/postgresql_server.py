"""Debian's PostgreSQL, started for tests, on a socket in a directory of its own and not as root."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from urllib.parse import quote

USER = "kubeskew"
START_SECONDS = 30.0
_SERVICE_USERS = ("postgres", "nobody")  # who runs it where we are root, which it refuses


@cache
def binaries() -> Path | None:
    """Returns the directory of the newest server on this machine, None if there is none."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    elsewhere = shutil.which("postgres")
    if found:
        return max(found, key=lambda path: int(path.parent.name))
    return Path(elsewhere).resolve().parent if elsewhere else None


def missing() -> str:
    """Returns why there can be no server, empty if there can."""
    if binaries() is None:
        return "no PostgreSQL server on this machine (Debian: apt-get install postgresql)"
    if os.geteuid() == 0 and _service_user() is None:
        return f"PostgreSQL refuses to run as root, and there is no user {' or '.join(_SERVICE_USERS)}"
    return ""


def _service_user() -> pwd.struct_passwd | None:
    for name in _SERVICE_USERS:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    return None


class PostgreSQLServer:
    """A server that runs, with an empty database `kubeskew` of which USER is the owner.

    At `port` it listens on loopback addresses too, once `settings` and rules say for whom."""

    def __init__(self, directory: Path, process: "subprocess.Popen[bytes] | None") -> None:
        self.directory = directory
        self.process = process
        self.port = 0
        self.settings: dict[str, str] = {}
        self._numbers = count(1)

    def url(self, database: str = USER, user: str = USER, **more: str) -> str:
        """Returns the URL of a database."""
        more |= {"port": str(self.port)} if self.port else {}
        query = "".join(f"&{name}={quote(value)}" for name, value in more.items())
        return f"postgresql://{user}@/{database}?host={quote(str(self.directory))}{query}"

    def fresh(self) -> str:
        """Returns the URL of a schema that nobody has used."""
        name = f"test_{os.getpid()}_{next(self._numbers)}"
        self.sql(f"CREATE SCHEMA {name}")
        return self.url(options=f"-csearch_path={name}")

    def sql(self, statement: str, url: str = "") -> list[str]:
        """Runs SQL as its owner would by hand; returns the lines of the answer, columns divided by |."""
        done = subprocess.run(
            [str(_binary("psql")), url or self.url(), "-XqAt", "-v", "ON_ERROR_STOP=1", "-c", statement],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        return done.stdout.splitlines()

    def start(self) -> None:
        """Starts it; returns when it answers."""
        log = (self.directory / "log").open("ab")
        self.process = subprocess.Popen(
            [str(_binary("postgres")), "-D", str(self.directory / "data"), "-k", str(self.directory),
             "-c", "fsync=off", "-c", "max_connections=200", *self._listening()],
            stdout=log, stderr=log, cwd=self.directory, **_as_service_user(),
        )  # fmt: skip
        log.close()
        end = time.monotonic() + START_SECONDS
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"PostgreSQL did not start: {(self.directory / 'log').read_text()}")
            time.sleep(0.02)

    def _listening(self) -> list[str]:
        settings = {"listen_addresses": "127.0.0.1,127.0.0.2" if self.port else "", **self.settings}
        settings |= {"port": str(self.port)} if self.port else {}
        return [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]

    def write(self, name: str, content: bytes) -> Path:
        """Writes a file that the server alone may read, and returns its path."""
        path = self.directory / name
        path.write_bytes(content)
        path.chmod(0o600)
        if os.geteuid() == 0 and (user := _service_user()):
            os.chown(path, user.pw_uid, user.pw_gid)
        return path

    def answers(self) -> bool:
        asked = [str(_binary("pg_isready")), "-q", "-h", str(self.directory)]
        asked += ["-p", str(self.port)] if self.port else []
        return subprocess.run(asked, check=False).returncode == 0

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stops it: SIGINT ends the sessions in order, SIGQUIT as a crash does."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait()
            self.process = None


def _binary(name: str) -> Path:
    directory = binaries()
    assert directory is not None
    return directory / name


def _as_service_user() -> dict[str, object]:
    user = _service_user() if os.geteuid() == 0 else None
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}


@contextmanager
def running_server() -> Iterator[PostgreSQLServer]:
    """Runs a server in a new directory below the temporary one; sockets have short paths only."""
    directory = Path(tempfile.mkdtemp(prefix="kubeskew-pg-"))
    try:
        user = _service_user() if os.geteuid() == 0 else None
        if user:
            os.chown(directory, user.pw_uid, user.pw_gid)
        subprocess.run(
            [str(_binary("initdb")), "-D", str(directory / "data"), "--username", USER, "--auth=trust",
             "--encoding=UTF8", "--locale=C", "--no-sync"],
            check=True, stdout=subprocess.DEVNULL, cwd=directory, **_as_service_user(),
        )  # fmt: skip
        server = PostgreSQLServer(directory, None)
        try:
            server.start()
            server.sql(f"CREATE DATABASE {USER}", server.url("postgres"))
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
