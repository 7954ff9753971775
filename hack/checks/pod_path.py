"""Prints the modules that run while one pod is created, from the socket to the event on the log and back.

    python hack/checks/pod_path.py [--functions] [-o json]

A server of the default version runs in this process, with its default admission plugins, over SQLite in
memory. A user with a token, whose role allows it, creates pods over a connection of his own. What runs in
every one of the last creates is printed in the order of the first call, the database's thread included:
modules of the product and the number of their functions. Methods that dataclasses generate do not count.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import DEFAULT_VERSION
from kubeskew.apiserver.options import ServerOptions
from kubeskew.apiserver.server import APIServer
from kubeskew.apiserver.storage.sql_log import SQLLog
from kubeskew.apiserver.storage.store import CachedStore

_URL = "sqlite+aiosqlite://"
_TOKENS = 'admin-token,admin,1,"system:masters"\nuser-token,jane,2,"developers"\n'
_NAMESPACE = "/api/v1/namespaces/default"
_RBAC = "rbac.authorization.k8s.io"
_ROLE = {
    "metadata": {"name": "pod-creator"},
    "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}],
}
_BINDING = {
    "metadata": {"name": "developers"},
    "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": "pod-creator"},
    "subjects": [{"apiGroup": _RBAC, "kind": "Group", "name": "developers"}],
}
_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "spec": {
        "containers": [
            {
                "name": "web",
                "image": "registry.example.com/web:1.0",
                "env": [{"name": "MODE", "value": "production"}],
                "ports": [{"containerPort": 8080}],
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
            }
        ]
    },
}
_WARM_UP, _TRACED = 3, 3

Functions = dict[str, dict[CodeType, None]]  # by module


class Tracer:
    """Notes the product's functions that are called, while it has somewhere to note them."""

    def __init__(self) -> None:
        self.functions: Functions | None = None

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        functions, module = self.functions, frame.f_globals.get("__name__") or ""
        if functions is None or event != "call" or not module.startswith("kubeskew."):
            return
        if not frame.f_code.co_filename.startswith("<"):
            functions.setdefault(module, {})[frame.f_code] = None


class User:
    """Sends requests over a connection of its own."""

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._head = f"Host: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"

    async def connect(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)

    def disconnect(self) -> None:
        self._writer.close()

    async def create(self, path: str, body: Any) -> None:
        data = json.dumps(body)
        self._writer.write(
            f"POST {path} HTTP/1.1\r\n{self._head}Content-Length: {len(data)}\r\n\r\n{data}".encode()
        )
        status, *headers = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        lengths = [line.split(":")[1] for line in headers if line.lower().startswith("content-length:")]
        answer = await self._reader.readexactly(int(lengths[0]))
        if " 201 " not in status:
            raise RuntimeError(answer.decode())


async def path_of_a_create(tracer: Tracer) -> Functions:
    """Starts a server, traces creates in it, and stops it."""
    gates = FeatureGates(DEFAULT_VERSION, {})
    environment = Environment(DEFAULT_VERSION, gates, SystemClock(), SeededEntropy(1))
    log = await SQLLog.open(_URL, environment.clock)
    store = await CachedStore.open(log, environment.clock)
    with tempfile.TemporaryDirectory() as directory:
        tokens = Path(directory) / "tokens.csv"
        tokens.write_text(_TOKENS)
        server = APIServer(
            ServerOptions(storage_url=_URL, token_auth_file=str(tokens)), environment, store, log
        )
    await server.start()
    admin, user = User(server.port, "admin-token"), User(server.port, "user-token")
    await admin.connect()
    await admin.create(f"{_NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}})
    await admin.create(f"/apis/{_RBAC}/v1/namespaces/default/roles", _ROLE)
    await admin.create(f"/apis/{_RBAC}/v1/namespaces/default/rolebindings", _BINDING)
    admin.disconnect()
    await user.connect()
    traces: list[Functions] = []
    for number in range(_WARM_UP + _TRACED):
        tracer.functions = {}
        await user.create(
            f"{_NAMESPACE}/pods", {**_POD, "metadata": {"name": f"web-{number}", "labels": {"app": "web"}}}
        )
        traces.append(tracer.functions)
        tracer.functions = None
    user.disconnect()
    await server.stop()
    await store.close()
    return _common(traces[_WARM_UP:])


def _common(traces: list[Functions]) -> Functions:
    """Keeps what every trace has, in the order of the first: the rest are duties of the server meanwhile."""
    first, *others = traces
    common = {
        module: {code: None for code in codes if all(code in other.get(module, {}) for other in others)}
        for module, codes in first.items()
    }
    return {module: codes for module, codes in common.items() if codes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--functions", action="store_true", help="name the functions too")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    arguments = parser.parse_args()
    tracer = Tracer()
    threading.setprofile(tracer)  # for threads that start from now on
    sys.setprofile(tracer)
    path = asyncio.run(path_of_a_create(tracer))
    sys.setprofile(None)
    threading.setprofile(None)
    names = {
        module.removeprefix("kubeskew."): [code.co_qualname for code in codes]
        for module, codes in path.items()
    }
    if arguments.output == "json":
        print(json.dumps(names, indent=1))
        return
    for module, functions in names.items():
        print(f"{module:60} {len(functions):4}")
        if arguments.functions:
            print(*(f"    {function}" for function in functions), sep="\n")
    print(f"{len(names)} modules, {sum(map(len, names.values()))} functions")


if __name__ == "__main__":
    main()
