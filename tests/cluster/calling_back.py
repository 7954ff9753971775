"""A webhook of a test's own on loopback, with the cluster's serving certificate."""

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SET_LABEL = [{"op": "add", "path": "/metadata/labels", "value": {"mutated": "yes"}}]
NO = "no bad names here"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = {"convert": _converted, "admit": _admitted}[self.path.partition("?")[0].strip("/")](
            review["request"]
        )
        review = {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": answer}
        body = json.dumps(review).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _admitted(request: dict[str, Any]) -> dict[str, Any]:
    """Refuses objects called `bad`, labels the others."""
    if request["name"] == "bad":
        return {"uid": request["uid"], "allowed": False, "status": {"message": NO, "code": 418}}
    patch = base64.b64encode(json.dumps(SET_LABEL).encode()).decode()
    return {"uid": request["uid"], "allowed": True, "patchType": "JSONPatch", "patch": patch}


def _converted(request: dict[str, Any]) -> dict[str, Any]:
    """v1 has `spec.size`, v2 `spec.replicas`."""
    version = request["desiredAPIVersion"]
    old, new = ("replicas", "size") if version.endswith("/v1") else ("size", "replicas")
    objects = request["objects"]
    for obj in objects:
        spec = obj.get("spec") or {}
        if old in spec:
            spec[new] = spec.pop(old)
        obj["apiVersion"] = version
    return {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects}


@contextmanager
def webhook(state: Path) -> Iterator[dict[str, Any]]:
    """A `clientConfig` (of path `/admit`) for a webhook that runs as long as the context."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(state / "pki" / "apiserver.crt", state / "pki" / "apiserver.key")
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    bundle = base64.b64encode((state / "ca.crt").read_bytes()).decode()
    try:
        yield {"url": f"https://127.0.0.1:{server.server_port}/admit", "caBundle": bundle}
    finally:
        server.shutdown()
        server.server_close()
