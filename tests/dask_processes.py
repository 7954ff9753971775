"""A Dask scheduler and workers as processes of their own, on loopback and free ports."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kubeskew.cluster.pki import Authority

START_SECONDS = 60.0


class DaskProcesses:
    """A scheduler, and as many workers as a test starts. What they say is in files of the directory."""

    def __init__(self, directory: Path, tls: "Certificates | None" = None) -> None:
        self.directory = directory
        self._tls = tls
        self._about = directory / "scheduler.json"
        self.workers: list[subprocess.Popen[bytes]] = []
        self.scheduler = self._start("dask_scheduler", "--port", "0", "--scheduler-file", str(self._about))
        self.address: str = json.loads(self._scheduler_file())["address"]

    def _scheduler_file(self) -> str:
        end = time.monotonic() + START_SECONDS
        while not self._about.exists() or not (text := self._about.read_text()):
            assert self.scheduler.poll() is None, (self.directory / "dask_scheduler-0.log").read_text()
            assert time.monotonic() < end, "the scheduler has not started"
            time.sleep(0.02)
        return text

    def _start(self, command: str, *arguments: str) -> "subprocess.Popen[bytes]":
        number = len(self.workers)
        environment = {
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parent / "conformance"),  # for dask_jobs.py
            "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "10s",
        }
        with (self.directory / f"{command}-{number}.log").open("wb") as log:
            return subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    f"distributed.cli.{command}",
                    "--host",
                    "tls://127.0.0.1" if self._tls and command == "dask_scheduler" else "127.0.0.1",
                    "--no-dashboard",
                    *(self._tls.flags("--tls") if self._tls else ()),
                    *arguments,
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                env=environment,
            )

    def start_worker(self, threads: int = 1) -> int:
        """Starts a worker without a nanny; returns its process id."""
        local = self.directory / f"worker-{len(self.workers)}"
        self.workers.append(
            self._start(
                *("dask_worker", self.address, "--no-nanny", "--nthreads", str(threads)),
                *("--local-directory", str(local), "--death-timeout", "60"),
            )
        )
        return self.workers[-1].pid

    def kill(self, pid: int) -> None:
        """Kills a worker, as by SIGKILL."""
        worker = next(each for each in self.workers if each.pid == pid)
        worker.kill()
        worker.wait()

    def children(self, pid: int) -> list[int]:
        """Returns the processes that a process has started, and those that they have."""
        found: list[int] = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                parent = int(path.read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            if parent == pid:
                child = int(path.parent.name)
                found += [child, *self.children(child)]
        return found


class Certificates:
    """An authority, and a certificate of it by which both sides of a connection identify, as Dask has it."""

    def __init__(self, directory: Path, name: str) -> None:
        self.ca, self.certificate, self.key = (
            directory / f"{name}{ending}" for ending in ("-ca.crt", ".crt", ".key")
        )
        authority = Authority.create(datetime.now(UTC), name)
        issuer = x509.load_pem_x509_certificate(authority.pair.certificate)
        signing = serialization.load_pem_private_key(authority.pair.key, None)
        assert isinstance(signing, ec.EllipticCurvePrivateKey)
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            x509.CertificateBuilder(
                issuer.subject, x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "dask")]),
                key.public_key(), x509.random_serial_number(), issuer.not_valid_before_utc,
                issuer.not_valid_after_utc,
            )
            .sign(signing, hashes.SHA256())
        )  # fmt: skip
        self.ca.write_bytes(authority.pair.certificate)
        self.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        self.key.write_bytes(
            key.private_bytes(
                *(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8),
                serialization.NoEncryption(),
            )
        )

    def flags(self, prefix: str) -> list[str]:
        """Returns the flags of Dask's own commands, or of ours, by what they begin with."""
        files = {"ca-file": self.ca, "cert": self.certificate, "key": self.key}
        return [word for name, file in files.items() for word in (f"{prefix}-{name}", str(file))]


def is_running(pid: int) -> bool:
    """Says whether a process is there and has not ended; nobody may have asked how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextmanager
def running_dask(directory: Path, tls: Certificates | None = None) -> Iterator[DaskProcesses]:
    """Gives a scheduler without workers, and ends all in the end."""
    directory.mkdir(parents=True, exist_ok=True)
    processes = DaskProcesses(directory, tls)
    try:
        yield processes
    finally:
        for process in processes.workers:
            process.send_signal(signal.SIGTERM)
        for process in processes.workers:
            end(process)
        processes.scheduler.send_signal(
            signal.SIGTERM
        )  # after them: a worker that loses it meanwhile may hang
        end(processes.scheduler)


def end(process: "subprocess.Popen[bytes]") -> None:
    """Waits until a process has ended, or kills it."""
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
