"""Every component obeys SIGTERM and SIGINT at any moment of its start."""

import asyncio
import signal
import sqlite3
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from until import until

from kubeskew.cli.terminal import escaped

KUBECONFIG = """apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:%d"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
"""
SECONDS = 30  # on a busy machine; the process itself takes ten at most
ARGUMENTS = {
    "scheduler": [],
    "controller-manager": [],
    "kubelet": ["--nodes-file", "{dir}/nodes.json", "--root-dir", "{dir}/root"],
    "driver": ["--node-name", "n", "--kubelet-registrar-directory-path", "{dir}/registrar",
               "--kubelet-plugins-directory-path", "{dir}/plugins", "--cdi-root", "{dir}/cdi"],
}  # fmt: skip
REFUSED = {  # the manager lists nothing before it leads, a kubelet nothing before it has registered
    "scheduler": [
        "Failed to watch *v1.Node: failed to list *v1.Node",
        "error retrieving or updating lease kube-system/kube-scheduler",
    ],
    "controller-manager": ["error retrieving or updating lease kube-system/kube-controller-manager"],
    "kubelet": ["cannot register node n yet"],
}
FORBIDDEN = (
    b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,'
    b'"message":"things is forbidden: User \\"u\\" cannot list resource \\"things\\""}'
)


async def silent(reader, _writer):
    """A server that takes requests and never answers."""
    await reader.read()


async def forbidding(reader, writer):
    """A server that forbids everything."""
    while await reader.readline():
        length = 0
        while (line := await reader.readline()).strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        await reader.readexactly(length)
        head = f"HTTP/1.1 403 Forbidden\r\nContent-Length: {len(FORBIDDEN)}\r\n"
        writer.write(head.encode() + b"Content-Type: application/json\r\n\r\n" + FORBIDDEN)


@asynccontextmanager
async def component(kind: str, directory: Path, answering):
    """A component's process on a server that behaves so; its log is `directory`/log."""
    serving = []

    async def serve(reader, writer):
        serving.append(asyncio.current_task())
        try:
            await answering(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the component ended
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    (directory / "kubeconfig").write_text(KUBECONFIG % server.sockets[0].getsockname()[1])
    (directory / "nodes.json").write_text('{"nodes": [{"name": "n"}]}')
    arguments = [text.format(dir=directory) for text in ARGUMENTS[kind]]
    with (directory / "log").open("w") as log:
        process = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-m",
                "kubeskew",
                kind,
                "--kubeconfig",
                str(directory / "kubeconfig"),
                *arguments,
            ),
            stderr=log,
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
            server.close()
            await asyncio.gather(*serving)


def said(directory: Path, text: str) -> bool:
    return text in (directory / "log").read_text()


@pytest.mark.parametrize("kind", ARGUMENTS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_component_whose_server_never_answers_stops(kind, number, tmp_path):
    """A component stops though its first requests are never answered."""
    async with component(kind, tmp_path, silent) as process:
        await until(lambda: said(tmp_path, "serving health"), SECONDS, every=0.05)
        process.send_signal(number)
        async with asyncio.timeout(SECONDS):
            assert await process.wait() == 0, escaped((tmp_path / "log").read_text(), "\n")


@pytest.mark.parametrize("kind", REFUSED)
async def test_a_component_that_may_nothing_says_so_and_stops(kind, tmp_path):
    """A component logs what the server forbids in client-go's words, and obeys SIGTERM at once."""
    async with component(kind, tmp_path, forbidding) as process:
        for text in REFUSED[kind]:
            await until(lambda text=text: said(tmp_path, f"{text}: things is forbidden"), SECONDS, every=0.05)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(SECONDS):
            assert await process.wait() == 0
        assert not said(tmp_path, "not stopped after")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_an_api_server_that_waits_for_its_storage_stops(number, tmp_path):
    """An API server that another process keeps from its storage ends at once."""
    holder = sqlite3.connect(tmp_path / "log.db", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-X", "importtime", "-m", "kubeskew", "apiserver"),
        *("--storage-url", f"sqlite:///{tmp_path}/log.db"),
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        while b"aiosqlite" not in (await process.stderr.readline()):  # imported right before it is opened
            assert process.returncode is None
        process.send_signal(number)
        async with asyncio.timeout(SECONDS):
            await process.communicate()
        assert process.returncode in {-number, 128 + number}
    finally:
        if process.returncode is None:
            process.kill()
        holder.close()
