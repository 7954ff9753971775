"""A program for a shim to run: `MODE KUBECONFIG HEALTH_PORT CERTIFICATE KEY`, all but the first optional.

Modes, joined by commas: `exit` ends with status 3, `suicide` by SIGKILL, `stubborn` ignores SIGTERM, `health`
serves /healthz alone, `lead` takes the lease, `list` lists and watches, `create` creates a config map.
"""

import base64
import http.client
import http.server
import json
import os
import signal
import ssl
import sys
import tempfile
import threading
import urllib.parse

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/healthz" else 404)
        self.end_headers()

    def log_message(self, *_):
        pass


def serve_health(port, certificate, key):
    server = http.server.HTTPServer(("127.0.0.1", int(port)), Health)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def connected(file):
    config = json.load(open(file))  # noqa: PTH123, SIM115
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    with tempfile.NamedTemporaryFile() as pair:
        pair.write(
            b"\n".join(base64.b64decode(user[f"client-{part}-data"]) for part in ("certificate", "key"))
        )
        pair.flush()
        context.load_cert_chain(pair.name)
    return http.client.HTTPSConnection(urllib.parse.urlsplit(cluster["server"]).netloc, context=context)


def ask(file, method, target, body=None):
    connection = connected(file)
    connection.request(method, target, json.dumps(body) if body else None)
    answer = connection.getresponse()
    if "watch=" not in target:
        answer.read()
    return connection, answer


def say(text):
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(modes, kubeconfig="", *health):
    say(f"begins with {os.environ.get('A')} {os.environ.get('SSL_CERT_FILE')}")
    if "exit" in modes:
        sys.exit(3)
    if "suicide" in modes:
        os.kill(os.getpid(), signal.SIGKILL)
    if "stubborn" in modes:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "health" in modes:
        serve_health(*health)
    kept = None
    if "lead" in modes:
        spec = {"holderIdentity": "me", "leaseTransitions": 4}
        metadata = {"name": "kube-scheduler", "namespace": "kube-system"}
        ask(kubeconfig, "POST", LEASES, {"metadata": metadata, "spec": spec})
    if "list" in modes:
        ask(kubeconfig, "GET", "/api/v1/pods")
        kept = ask(kubeconfig, "GET", "/api/v1/pods?watch=true")
    if "create" in modes:
        target = "/api/v1/namespaces/ns/configmaps"
        ask(kubeconfig, "POST", target, {"metadata": {"name": "a", "namespace": "ns"}})
    say("waits")
    threading.Event().wait()
    del kept


main(sys.argv[1].split(","), *sys.argv[2:])
