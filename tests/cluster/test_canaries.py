"""Tokens, keys and what Secrets contain stay out of logs, events, metrics and histories."""

import base64
import json
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from asking import Local

pytestmark = pytest.mark.slow
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "reader"},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "busybox",
                "command": ["sleep", "1000"],
                "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "planted", "key": "a"}}}],
                "volumeMounts": [{"name": "planted", "mountPath": "/planted"}],
            }
        ],
        "volumes": [{"name": "planted", "secret": {"secretName": "planted"}}],
    },
}


class Planting:
    """Canaries in a cluster, and all that its user and its operators get to read."""

    def __init__(self, local: Local, kubectl: Path) -> None:
        self.local = local
        self._kubectl = kubectl
        self.canaries: list[str] = []
        self.read: dict[str, str] = {}

    def canary(self, name: str) -> str:
        self.canaries.append(f"canary-{name}-{len(self.canaries)}")
        return self.canaries[-1]

    def kubectl(self, *arguments: str, stdin: str = "", keep: str = "") -> str:
        """Runs kubectl, whatever it answers; what it says is read by people if it is kept."""
        environment = {
            "PATH": os.environ["PATH"],
            "KUBECONFIG": str(self.local.state / "kubeconfig"),
            "HOME": str(self.local.state.parent),
        }
        command = [str(self._kubectl), *arguments]
        result = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=60, env=environment
        )
        if keep:
            self.read[keep] = result.stdout + result.stderr
        return result.stdout.strip()

    def secret(self, name: str, keep: str = "", kind: str = "Opaque", **data: str) -> None:
        made = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": kind}
        self.kubectl(
            "create", "--validate=false", "-f", "-", stdin=json.dumps({**made, "stringData": data}), keep=keep
        )

    def command(self, *arguments: str) -> None:
        for output in ("table", "json"):
            asked = arguments if output == "table" else (*arguments, "-o", "json")
            result = self.local.run(*asked)
            self.read[f"kubeskew {' '.join(asked)}"] = result.stdout + result.stderr

    def found(self) -> Iterator[str]:
        """Names where a canary shows, as it is or in base64."""
        for canary in self.canaries:
            forms = {canary, base64.b64encode(canary.encode()).decode().rstrip("="), _part(canary)}
            for place, text in self.read.items():
                if any(form in text for form in forms):
                    yield f"{canary} in {place}"


def _part(text: str) -> str:
    """Tokens and keys are looked for by a part from their middle."""
    return text[len(text) // 3 :][:40] if len(text) > 80 else text


@pytest.fixture
def planting(fresh: Local, find_kubectl: Callable[[str], Path]) -> Planting:
    kubectl = find_kubectl("1.36")
    fresh.run("up", "--version", "1.35", "--nodes", "1")
    return Planting(fresh, kubectl)


def _ask(server: str, **headers: str) -> None:
    """Asks the API server with odd credentials, whatever it answers."""
    asked = [*(f"-H{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    url = f"{server}/api/v1/namespaces/default/pods/reader/exec?command=ls"
    subprocess.run(["curl", "-sk", "-m", "3", *asked, url], capture_output=True, timeout=30)


def test_canaries_show_nowhere(planting: Planting):
    """Contents of Secrets, tokens and keys are in no log, event, metric or history, nor in a command's
    answer."""
    local, canary = planting.local, planting.canary
    planting.secret("planted", a=canary("data"))
    planting.kubectl("apply", "-f", "-", stdin=json.dumps(POD))
    planting.kubectl("wait", "--for=condition=Ready", "pod/reader", "--timeout=40s")
    planting.secret(
        "json", kind="kubernetes.io/dockerconfigjson", keep="invalid", **{".dockerconfigjson": canary("json")}
    )
    planting.secret("tls", kind="kubernetes.io/tls", **{"tls.crt": "x", "tls.key": canary("key")})
    config = json.dumps({"stringData": {"a": canary("changed")}})
    planting.kubectl("patch", "secret", "planted", "-p", config)
    test = [{"op": "test", "path": "/data/a", "value": canary("tested")}]
    planting.kubectl("patch", "secret", "planted", "--type=json", "-p", json.dumps(test), keep="patch")
    server = planting.kubectl("config", "view", "--raw", "-o", "jsonpath={.clusters[0].cluster.server}")
    token = planting.kubectl("create", "token", "default")
    assert token.count(".") == 2
    planting.canaries.append(token)
    _ask(server, Authorization=f"Bearer {token}")
    _ask(server, Authorization=f"Bearer {canary('bearer')}")
    _ask(server, Authorization="Basic " + base64.b64encode(canary("basic").encode()).decode())
    protocol = base64.urlsafe_b64encode(canary("socket").encode()).decode().rstrip("=")
    _ask(
        server, Connection="Upgrade", Upgrade="websocket", Sec_WebSocket_Version="13",
        Sec_WebSocket_Key="dGhlIHNhbXBsZSBub25jZQ==",
        Sec_WebSocket_Protocol=f"base64url.bearer.authorization.k8s.io.{protocol}",
    )  # fmt: skip
    for file in sorted((local.state / "pki").glob("*.key")):
        planting.canaries.append("".join(file.read_text().splitlines()[1:-1]))
    planting.canaries.append((local.state / "admin.token").read_text().strip())

    local.run("upgrade", "--to", "1.36", seconds=180)
    for what in ("secret/planted", "pod/reader"):
        planting.command("why", what)
        planting.command("history", *what.split("/"))
    planting.command("events")
    newest = json.loads(planting.read["kubeskew events -o json"])[-1]["revision"]
    planting.command("diff", "1", str(newest))
    for command in ("check", "status", "replay"):
        planting.command(command)
    planting.kubectl("get", "events", "-A", "-o", "yaml", keep="events")
    planting.kubectl("get", "--raw", "/metrics", keep="metrics")
    planting.kubectl("get", "--raw", "/api/v1/nodes/node-1/proxy/metrics", keep="the node's metrics")
    planting.kubectl("get", "--raw", "/api/v1/nodes/node-1/proxy/pods", keep="the node's pods")
    planting.kubectl("describe", "secret", "planted", keep="describe")
    for file in sorted((local.state / "logs").iterdir()):
        planting.read[file.name] = file.read_text()
    assert len(planting.read["metrics"]) > 10_000
    assert "data.a: *** (before) → *** (after)" in planting.read["kubeskew history secret planted"]
    assert sum(len(text) for name, text in planting.read.items() if name.endswith(".log")) > 1_000
    assert [*planting.found()] == []


def _open_to_others(state: Path) -> list[str]:
    """Names files and directories that others than their owner may read or enter."""
    found = []
    for path in [state, *sorted(state.rglob("*"))]:
        mode = path.lstat().st_mode
        if not stat.S_ISLNK(mode) and mode & 0o077 and not _behind_closed_door(path, state):
            found.append(f"{path.relative_to(state)} {stat.filemode(mode)}")
    return found


def _behind_closed_door(path: Path, state: Path) -> bool:
    """True if a directory above, within the state directory, lets nobody else in."""
    above = [parent for parent in path.parents if parent == state or state in parent.parents]
    return any(not parent.stat().st_mode & 0o077 for parent in above)


def test_files_stay_closed(planting: Planting, tmp_path: Path):
    """Upgrades, forks and rewinds leave no file of a cluster open to other users."""
    local = planting.local
    assert _open_to_others(local.state) == []
    local.run("upgrade", "--to", "1.36", seconds=180)
    revision = json.loads(local.run("events", "-o", "json").stdout)[-1]["revision"]
    assert _open_to_others(local.state) == []
    local.run("fork", "--at", str(revision), str(tmp_path / "other"))
    other = Local(tmp_path / "other")
    try:
        assert _open_to_others(other.state) == []
    finally:
        other.run("down", "--purge")
    local.run("rewind", "--to", str(revision))
    assert _open_to_others(local.state) == []
    keys = [*local.state.rglob("*.key"), local.state / "admin.token"]
    assert len(keys) > 3
    assert {stat.S_IMODE(file.stat().st_mode) for file in keys} == {0o600}
