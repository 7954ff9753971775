"""A webhook that runs in a pod, whose containers are processes, decides on what is written."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from asking import CONFIG_MAPS, Local, config_map, eventually
from webhook_server import BUNDLE, CERTIFICATE, KEY

from kubeskew.kubelet.containers.host.images.programs import libraries

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("webhooks")]

DEFAULT = "/api/v1/namespaces/default"
PYTHON = Path(sys.executable).resolve()
# Refuses config maps without an owner, and says what it was asked.
HOOK = """
import http.server, json, ssl

class Hook(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = review["request"]
        allowed = "owner" in (request["object"]["metadata"].get("labels") or {})
        response = {"uid": request["uid"], "allowed": allowed}
        if not allowed:
            message = f"{request['operation']} of {request['name']} for {self.headers['Host']}"
            response["status"] = {"code": 403, "message": message}
        body = json.dumps({**review, "request": None, "response": response}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass

server = http.server.ThreadingHTTPServer(("", 8443), Hook)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/certificate/tls.crt", "/certificate/tls.key")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


def hook_objects():
    """A webhook by resource, as a vendor's manifest has it, but for its configuration."""
    container = {
        "name": "hook",
        "image": "example.com/hook:1",
        "command": [str(PYTHON), "-S", "/program/hook.py"],
        "env": [{"name": "PYTHONHOME", "value": sys.base_prefix}],
        "ports": [{"name": "https", "containerPort": 8443}],
        "readinessProbe": {"tcpSocket": {"port": "https"}, "periodSeconds": 1},
        "volumeMounts": [
            {"name": "program", "mountPath": "/program"},
            {"name": "certificate", "mountPath": "/certificate", "readOnly": True},
        ],
    }
    volumes = [
        {"name": "program", "configMap": {"name": "program"}},
        {"name": "certificate", "secret": {"secretName": "certificate"}},
    ]
    pod = {"terminationGracePeriodSeconds": 0, "containers": [container], "volumes": volumes}
    pair = {"tls.crt": CERTIFICATE.decode(), "tls.key": KEY.decode()}
    labels = {"app": "hook"}
    service = {"selector": labels, "ports": [{"port": 443, "targetPort": "https"}]}
    return {
        "configmaps": {"metadata": {"name": "program"}, "data": {"hook.py": HOOK}},
        "secrets": {"metadata": {"name": "certificate"}, "type": "kubernetes.io/tls", "stringData": pair},
        "pods": {"metadata": {"name": "hook", "labels": labels}, "spec": pod},
        "services": {"metadata": {"name": "hook"}, "spec": service},
    }


CONFIGURATION = {
    "metadata": {"name": "hook"},
    "webhooks": [
        {
            "name": "hook.example.com",
            "clientConfig": {"service": {"namespace": "default", "name": "hook"}, "caBundle": BUNDLE},
            "rules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["configmaps"],
                }
            ],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
    ],
}


def python_root(root: Path) -> Path:
    """A root file system with this machine's Python, and of its library what the webhook imports."""
    imports = "import http.server, json, ssl, sys, encodings.idna, encodings.latin_1"
    code = f"{imports}; print(*(getattr(each, '__file__', '') for each in sys.modules.values()))"
    shown = subprocess.run([str(PYTHON), "-S", "-c", code], capture_output=True, text=True, check=True).stdout
    modules = [Path(path) for path in shown.split() if Path(path).is_file()]
    linked = [each for file in (PYTHON, *modules) if file.suffix != ".py" for each in libraries(file)]
    for file in (PYTHON, *modules, *linked):
        copied = root / str(file).lstrip("/")
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copied)
    return root


def test_a_webhook_in_a_pod(fresh: Local, tmp_path: Path):
    """The API server calls the webhook by its Service and does as it says; without its pod it is refused."""
    image = f"*hook*={python_root(tmp_path / 'root')}"
    command = [sys.executable, "-m", "kubeskew", "--state-dir", str(fresh.state)]
    command += ["up", "--runtime", "host", "--nodes", "1", "--image", image]
    started = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if started.returncode and "namespaces" in started.stderr:
        pytest.skip(f"containers cannot be processes here, the kernel refuses namespaces: {started.stderr}")
    assert started.returncode == 0, started.stderr
    for resource, made in hook_objects().items():
        fresh.create(f"{DEFAULT}/{resource}", made)
    eventually(lambda: "True" in ready(fresh.get(f"{DEFAULT}/pods/hook")))
    fresh.create("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", CONFIGURATION)

    def answer(name: str, **labels: str) -> tuple[int, str]:
        made = config_map(name)
        made["metadata"]["labels"] = labels
        status, body = fresh.ask("POST", f"{CONFIG_MAPS}?dryRun=All", made)
        return status, body.get("message", "")

    denied = 'admission webhook "hook.example.com" denied the request: CREATE of a for hook.default.svc:443'
    eventually(lambda: answer("a") == (403, denied))
    assert answer("b", owner="me") == (201, "")

    fresh.ask("DELETE", f"{DEFAULT}/pods/hook")
    eventually(lambda: answer("b", owner="me")[1].endswith(": connect: connection refused"))
    assert answer("b", owner="me")[0] == 500


def ready(pod):
    conditions = pod["status"].get("conditions") or ()
    return [condition["status"] for condition in conditions if condition["type"] == "Ready"]
