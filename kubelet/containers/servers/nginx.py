"""nginx, as far as it serves files: what the image `nginx` runs.

It listens at port 80, serves the files below /usr/share/nginx/html as they are at that moment, and writes an
access log to its output. Of its configuration nothing is read. Headers, pages and formats are those of nginx
1.27 and its image (docker-nginx); that they are the same in other versions is from memory.
"""

import posixpath
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from urllib.parse import unquote

from kubeskew.kubelet.containers.execution.files import File, FileError
from kubeskew.kubelet.containers.execution.process import Process
from kubeskew.kubelet.containers.execution.waiting import sleep
from kubeskew.kubelet.containers.network import HTTPAnswer, HTTPRequest, PortTakenError
from kubeskew.kubelet.containers.tools.options import options_of

PORT = 80
VERSION_VARIABLE = "NGINX_VERSION"  # set by the image
_DEFAULT_VERSION = "1.27.3"
_ROOT = "/usr/share/nginx/html"
_REASONS = {
    200: "OK",
    301: "Moved Permanently",
    304: "Not Modified",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Not Allowed",
}
_TYPES = {
    "html": "text/html", "htm": "text/html", "css": "text/css", "js": "application/javascript",
    "xml": "text/xml", "txt": "text/plain", "json": "application/json", "svg": "image/svg+xml",
    "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif", "ico": "image/x-icon",
}  # fmt: skip
_WELCOME = """\
<!DOCTYPE html>
<html>
<head>
<title>Welcome to nginx!</title>
<style>
html { color-scheme: light dark; }
body { width: 35em; margin: 0 auto;
font-family: Tahoma, Verdana, Arial, sans-serif; }
</style>
</head>
<body>
<h1>Welcome to nginx!</h1>
<p>If you see this page, the nginx web server is successfully installed and
working. Further configuration is required.</p>

<p>For online documentation and support please refer to
<a href="http://nginx.org/">nginx.org</a>.<br/>
Commercial support is available at
<a href="http://nginx.com/">nginx.com</a>.</p>

<p><em>Thank you for using nginx.</em></p>
</body>
</html>
"""
_SERVER = """\
server {
    listen       80;
    listen  [::]:80;
    server_name  localhost;

    location / {
        root   /usr/share/nginx/html;
        index  index.html index.htm;
    }

    error_page   500 502 503 504  /50x.html;
    location = /50x.html {
        root   /usr/share/nginx/html;
    }
}
"""
FILES = {
    "docker-entrypoint.sh": '#!/bin/sh\nexec "$@"\n',
    "usr/share/nginx/html/index.html": _WELCOME,
    "etc/nginx/conf.d/default.conf": _SERVER,
}
ENTRYPOINT, COMMAND = ["/docker-entrypoint.sh"], ["nginx", "-g", "daemon off;"]


def version_of(tag: str) -> str:
    """Returns the version that the tag of an image means: `1.25`, `1.25.3-alpine`; else the newest known."""
    found = re.match(r"(\d+\.\d+)(\.\d+)?(?:-|$)", tag)
    return f"{found[1]}{found[2] or '.0'}" if found is not None else _DEFAULT_VERSION


async def nginx(process: Process, argv: list[str]) -> int:
    """Serves until it is stopped; or tells its version (`-v`), tests its configuration (`-t`)."""
    options, _ = options_of(argv, "gcpseq")
    version = process.environment.get(VERSION_VARIABLE) or _DEFAULT_VERSION
    if "v" in options or "V" in options:
        process.complain(f"nginx version: nginx/{version}")
        return 0
    if "t" in options:
        process.complain("nginx: the configuration file /etc/nginx/nginx.conf syntax is ok")
        process.complain("nginx: configuration file /etc/nginx/nginx.conf test is successful")
        return 0
    if "s" in options:
        process.complain(f"{_log_time(process.machine.now())} [notice] 30#30: signal process started")
        return 0
    site = _Site(process, version)
    try:
        give_back = process.machine.network.listen(PORT, site.serve)
    except PortTakenError:
        text = f"bind() to 0.0.0.0:{PORT} failed (98: Address already in use)"
        process.complain(f"{_log_time(process.machine.now())} [emerg] 1#1: {text}")
        process.complain(f"nginx: [emerg] {text}")
        return 1
    try:
        await sleep(float("inf"))
    finally:
        give_back()
    return 0


class _Site:
    """The files that one nginx serves, and its logs."""

    def __init__(self, process: Process, version: str) -> None:
        self._process = process
        self._version = version
        self._requests = 0

    def serve(self, request: HTTPRequest) -> HTTPAnswer:
        """Answers a request, and writes it to the log."""
        self._requests += 1
        answer = self._answer(request)
        sent = 0 if request.method == "HEAD" else len(answer.body)
        shown = [request.header(name) or "-" for name in ("referer", "user-agent", "x-forwarded-for")]
        time = self._process.machine.now().astimezone(UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
        self._process.out(
            f'{request.peer} - - [{time}] "{_line(request)}" {answer.status} {sent} '
            f'"{shown[0]}" "{shown[1]}" "{shown[2]}"\n'
        )
        return answer

    def _answer(self, request: HTTPRequest) -> HTTPAnswer:
        asked = unquote(request.target.partition("?")[0])
        if not asked.startswith("/") or _leaves(asked):
            return self._error(400)
        path = _ROOT + posixpath.normpath(f"/{asked.lstrip('/')}").rstrip("/")
        try:
            return self._of_path(request, path, asked)
        except FileError as error:
            self._complain(request, path, error.text)
            return self._error(404)

    def _of_path(self, request: HTTPRequest, path: str, asked: str) -> HTTPAnswer:
        """Answers with the file at a path. Raises FileError."""
        files = self._process.machine.files
        found = files.look(path)
        if found is not None and found.is_directory:
            if not asked.endswith("/"):
                location = f"http://{request.header('host') or 'localhost'}{asked}/"
                return self._error(301, {"Location": location})
            path = next(
                (f"{path}/{name}" for name in ("index.html", "index.htm") if files.look(f"{path}/{name}")), ""
            )
            if not path:
                self._complain(request, f"{_ROOT}{asked}", "", forbidden=True)
                return self._error(403)
            found = files.look(path)
        elif asked.endswith("/") or found is None:
            raise FileError("No such file or directory" if found is None else "Not a directory")
        if request.method not in {"GET", "HEAD"}:
            return self._error(405)
        return self._of_file(request, path, found or File(b""))

    def _of_file(self, request: HTTPRequest, path: str, file: File) -> HTTPAnswer:
        data, changed = file.data or b"", int(file.changed)
        tag = f'"{changed:x}-{len(data):x}"'
        headers = {
            "Content-Type": _TYPES.get(path.rpartition(".")[2].lower(), "application/octet-stream"),
            "Last-Modified": _http_date(datetime.fromtimestamp(changed, UTC)),
            "ETag": tag,
        }
        if tag in request.header("if-none-match"):
            del headers["Content-Type"]
            return self._made(304, headers, b"")
        return self._made(200, headers, data)

    def _error(self, status: int, headers: Mapping[str, str] | None = None) -> HTTPAnswer:
        title = f"{status} {_REASONS[status]}"
        page = (
            f"<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{title}</h1></center>\r\n"
            f"<hr><center>nginx/{self._version}</center>\r\n</body>\r\n</html>\r\n"
        )
        return self._made(status, {"Content-Type": "text/html", **(headers or {})}, page.encode())

    def _made(self, status: int, headers: Mapping[str, str], body: bytes) -> HTTPAnswer:
        common = {"Server": f"nginx/{self._version}", "Date": _http_date(self._process.machine.now())}
        return HTTPAnswer(status, _REASONS[status], {**common, **headers}, body)

    def _complain(self, request: HTTPRequest, path: str, why: str, *, forbidden: bool = False) -> None:
        """Writes a line of the error log."""
        what = (
            f'directory index of "{path}" is forbidden'
            if forbidden
            else f'open() "{path}" failed ({_NUMBERS.get(why, 2)}: {why})'
        )
        host = f', host: "{request.header("host")}"' if request.header("host") else ""
        self._process.complain(
            f"{_log_time(self._process.machine.now())} [error] 29#29: *{self._requests} {what}, "
            f'client: {request.peer}, server: localhost, request: "{_line(request)}"{host}'
        )


_NUMBERS = {"No such file or directory": 2, "Not a directory": 20, "Too many levels of symbolic links": 40}


def _leaves(path: str) -> bool:
    """Returns whether a path goes above its top."""
    depth = 0
    for name in path.split("/"):
        depth += -1 if name == ".." else 1 if name not in {"", "."} else 0
        if depth < 0:
            return True
    return False


def _line(request: HTTPRequest) -> str:
    return f"{request.method} {request.target} {request.version}".strip()


def _log_time(now: datetime) -> str:
    return now.astimezone(UTC).strftime("%Y/%m/%d %H:%M:%S")


def _http_date(moment: datetime) -> str:
    return format_datetime(moment.astimezone(UTC), usegmt=True)
