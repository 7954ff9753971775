"""Fake programs of Kubernetes for tests: scripts that answer --version and --help as upstream's do."""

import sys
from pathlib import Path

HELP = """The program does something.

Usage:
  {name} [flags]

Flags:
      --kubeconfig string                 Path to kubeconfig file.
      --kube-api-qps float                QPS to use.
      --leader-elect                      Start a leader election client. (default true)
      --feature-gates colonSeparatedMultimapStringString   A set of key=value pairs. Options are:
                                          kube:AllAlpha=true|false (ALPHA - default=false)
                                          kube:DRAExtendedResource=true|false (BETA - default=true)
                                          kube:MyOwnGate=true|false (ALPHA - default=false)
  -v, --v Level                           number for the log level verbosity
"""


def write_program(path: Path, version: str = "v1.36.3", body: str = "", usage: str = HELP) -> Path:
    """Writes a program that reports `version`, and otherwise runs `body` (Python)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"#!{sys.executable}\n"
        "import sys\n"
        f"if sys.argv[1:] == ['--version']:\n    print('Kubernetes {version}')\n    raise SystemExit\n"
        f"if sys.argv[1:] == ['--help']:\n    print({usage.format(name=path.name)!r})\n    raise SystemExit\n"
        f"{body}\n"
    )
    path.chmod(0o755)
    return path


# A kube-scheduler whose work our own does, in a process: it takes upstream's flags, and serves health and
# metrics over HTTPS.
_SCHEDULER = """
import http.client, http.server, os, socket, ssl, threading
given = dict(argument.lstrip('-').split('=', 1) for argument in sys.argv[1:])
with socket.socket() as taken:
    taken.bind(('127.0.0.1', 0))
    port = taken.getsockname()[1]

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        status, body = 403, b''
        if self.path != '/metrics' or self.headers.get('Authorization'):
            try:
                connection = http.client.HTTPConnection('127.0.0.1', port, timeout=5)
                connection.request('GET', self.path)
                answer = connection.getresponse()
                status, body = answer.status, answer.read()
            except OSError as error:
                status, body = 500, str(error).encode()
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer((given['bind-address'], int(given['secure-port'])), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(given['tls-cert-file'], given['tls-private-key-file'])
server.socket = context.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
from kubeskew.cli.main import main
main(['scheduler', '--kubeconfig', given['kubeconfig'], '--emulated-version', 'RELEASE',
      '--secure-port', str(port)])
"""


def write_scheduler(path: Path, version: str, release: str) -> Path:
    """Writes a kube-scheduler that reports `version` and does the work of ours at `release`."""
    return write_program(path, version, _SCHEDULER.replace("RELEASE", release))
