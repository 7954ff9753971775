"""Commands that use the network: there are the ports of the pod itself, and no route to anything else."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from kubeskew.kubelet.containers.execution.files import FileError
from kubeskew.kubelet.containers.execution.process import Process
from kubeskew.kubelet.containers.execution.waiting import sleep
from kubeskew.kubelet.containers.network import HTTPAnswer, HTTPRequest, header_lines
from kubeskew.kubelet.containers.tools.options import options_of

Command = Callable[[Process, list[str]], Awaitable[int]]

_ADDRESS = re.compile(r"\d{1,3}(\.\d{1,3}){3}|\[?[0-9a-fA-F:]+:[0-9a-fA-F:]*\]?")
_CURL_UNRESOLVED, _CURL_REFUSED, _CURL_FAILED = 6, 7, 22
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})  # noqa: S104 - a name, nothing listens on it


def _is_own(process: Process, host: str) -> bool:
    """Returns whether a name or address is the pod's own."""
    if host in _LOCAL:
        return True
    try:
        hosts = process.machine.files.read("/etc/hosts").decode("utf-8", "replace")
    except FileError:
        return False
    lines = (line.partition("#")[0].split() for line in hosts.splitlines())
    return host in {word for words in lines for word in words}


def _failure(process: Process, host: str) -> str:
    """Returns the error of a connection: refused by the pod itself, no route to other hosts."""
    if _is_own(process, host):
        return "Connection refused"
    return "Network is unreachable" if _ADDRESS.fullmatch(host) else ""


def _target(url: str) -> tuple[str, int]:
    parts = urlsplit(url if "://" in url else f"http://{url}")
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def _fetched(process: Process, url: str, asked: HTTPRequest) -> HTTPAnswer | None:
    """Returns what a program of the pod answers; None if none listens there, or the host is another."""
    host, port = _target(url)
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme != "http" or not _is_own(process, host):
        return None
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    named = {name.lower() for name, _ in asked.headers}
    common = [("Host", parts.netloc), ("Accept", "*/*")]
    headers = [pair for pair in common if pair[0].lower() not in named]
    return process.machine.network.ask(
        port, asked._replace(target=target, headers=(*headers, *asked.headers))
    )


async def _wget(process: Process, argv: list[str]) -> int:
    """busybox' `wget`."""
    options, urls = options_of(
        argv, "OoPTtUY", ("header", "post-data", "post-file", "timeout", "tries", "spider")
    )
    if not urls:
        return process.complain(
            "BusyBox v1.36.1 multi-call binary.\n\nUsage: wget [-cqS] [-O FILE] [-T SEC] URL..."
        )
    host, port = _target(urls[0])
    await sleep(0)
    body = options.get("post-data", "").encode()
    asked = HTTPRequest(
        "POST" if body else "GET", "", (("User-Agent", "Wget"), ("Connection", "close")), body
    )
    answer = _fetched(process, urls[0], asked)
    why = _failure(process, host)
    if not why:
        return process.complain(f"wget: bad address '{host}{'' if port in {80, 443} else f':{port}'}'")
    if "q" not in options:
        process.complain(f"Connecting to {host}:{port} ({host}:{port})")
    if answer is None:
        return process.complain(f"wget: can't connect to remote host ({host}): {why}")
    if answer.status >= 400:
        return process.complain(f"wget: server returned error: HTTP/1.1 {answer.status} {answer.reason}")
    if "spider" in options:
        return 0
    name = options.get("O") or urlsplit(urls[0]).path.rpartition("/")[2] or "index.html"
    if name == "-":
        process.stdout(answer.body)
        return 0
    process.machine.files.write(process.path(name), answer.body, process.timestamp())
    if "q" not in options:
        process.complain(f"saving to '{name}'\n'{name}' saved")
    return 0


@dataclass(slots=True)
class _CurlOptions:
    """Holds what a command line of curl says, as far as it has an effect here."""

    urls: list[str] = field(default_factory=list)
    method: str = ""
    headers: list[tuple[str, str]] = field(default_factory=list)
    data: list[str] = field(default_factory=list)
    output: str = ""
    write_out: str = ""
    flags: set[str] = field(default_factory=set)

    def take(self, name: str, value: str) -> None:
        """Takes an option with a value."""
        if name in {"X", "request"}:
            self.method = value
        elif name in {"H", "header"}:
            header, _, text = value.partition(":")
            self.headers.append((header.strip(), text.strip()))
        elif name in {"d", "data", "data-binary", "data-raw"}:
            self.data.append(value)
        elif name in {"o", "output"}:
            self.output = value
        elif name in {"w", "write-out"}:
            self.write_out = value
        elif name in {"A", "user-agent"}:
            self.headers.append(("User-Agent", value))
        elif name == "url":
            self.urls.append(value)

    def request(self) -> HTTPRequest:
        is_head = "I" in self.flags or "head" in self.flags
        method = self.method or ("HEAD" if is_head else "POST" if self.data else "GET")
        named = {name.lower() for name, _ in self.headers}
        agent = [] if "user-agent" in named else [("User-Agent", "curl/8.5.0")]
        return HTTPRequest(method, "", (*agent, *self.headers), "&".join(self.data).encode())


def _curl_options(argv: list[str]) -> _CurlOptions:
    found, words = _CurlOptions(), argv[1:]
    while words:
        word = words.pop(0)
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if f"--{name}" in _CURL_VALUED:
                found.take(name, value if equals else words.pop(0) if words else "")
            else:
                found.flags.add(name)
        elif word.startswith("-") and len(word) > 1:
            letters = word[1:]
            while letters:
                letter, letters = letters[0], letters[1:]
                if letter in _CURL_LETTERS_VALUED:
                    found.take(letter, letters or (words.pop(0) if words else ""))
                    break
                found.flags.add(letter)
        else:
            found.urls.append(word)
    return found


async def _curl(process: Process, argv: list[str]) -> int:
    options = _curl_options(argv)
    if not options.urls:
        process.complain("curl: try 'curl --help' or 'curl --manual' for more information")
        return 2
    url, flags = options.urls[0], options.flags
    host, port = _target(url)
    await sleep(0)
    answer = _fetched(process, url, options.request())
    if answer is not None:
        return _curled(process, options, answer)
    why = _failure(process, host)
    code = _CURL_REFUSED if why else _CURL_UNRESOLVED
    if not flags & {"s", "silent"} or flags & {"S", "show-error"}:
        text = f"Failed to connect to {host} port {port} after 0 ms: Couldn't connect to server"
        process.complain(f"curl: ({code}) " + (text if why else f"Could not resolve host: {host}"))
    return code


def _curled(process: Process, options: _CurlOptions, answer: HTTPAnswer) -> int:
    """Writes an answer as curl does; returns its exit code."""
    flags, is_head = options.flags, bool(options.flags & {"I", "head"})
    fails = answer.status >= 400 and bool(flags & {"f", "fail"})
    shown = b""
    if is_head or flags & {"i", "include"}:
        lines = "".join(f"{line}\r\n" for line in header_lines(answer, last=False))
        shown = f"{lines}\r\n".encode()
    if not is_head and not fails:
        shown += answer.body
    if options.output:
        process.machine.files.write(process.path(options.output), shown, process.timestamp())
    else:
        process.stdout(shown)
    sizes = {"http_code": f"{answer.status:03}", "response_code": f"{answer.status:03}"}
    sizes |= {"size_download": str(0 if is_head else len(answer.body))}
    text = re.sub(r"%\{(\w+)\}", lambda match: sizes.get(match[1], ""), options.write_out)
    process.out(text.replace("\\n", "\n").replace("\\t", "\t"))
    if not fails:
        return 0
    if not flags & {"s", "silent"} or flags & {"S", "show-error"}:
        process.complain(f"curl: (22) The requested URL returned error: {answer.status}")
    return _CURL_FAILED


_CURL_VALUED = frozenset({
    "--request", "--header", "--data", "--output", "--user", "--max-time", "--connect-timeout", "--write-out",
    "--retry", "--cacert", "--cert", "--key", "--data-binary", "--resolve", "--retry-delay",
    "--user-agent", "--url", "--data-raw",
})  # fmt: skip
_CURL_LETTERS_VALUED = "XHdoumwAeFTbcECDxrK"


async def _nc(process: Process, argv: list[str]) -> int:
    """Runs `nc [-zv] [-w SECONDS] HOST PORT`: `-z` says whether a program listens; else nothing connects."""
    options, words = options_of(argv, "wpseio")
    if "l" in options:
        await sleep(float("inf"))
    if not words:
        return process.complain(
            "BusyBox v1.36.1 multi-call binary.\n\nUsage: nc [OPTIONS] HOST PORT  - connect"
        )
    host, port = words[0], words[1] if len(words) > 1 else "0"
    await sleep(0)
    if (
        "z" in options
        and _is_own(process, host)
        and port.isdigit()
        and process.machine.network.listens(int(port))
    ):
        return process.complain(f"{host} ({host}:{port}) open") - 1 if "v" in options else 0
    why = _failure(process, host)
    if not why:
        return process.complain(f"nc: bad address '{host}'")
    if "z" in options and "v" not in options:
        return 1
    return process.complain(
        f"nc: {host} ({host}:{port}): {why}"
        if "v" in options
        else f"nc: can't connect to remote host ({host}): {why}"
    )


async def _ping(process: Process, argv: list[str]) -> int:
    _, words = options_of(argv, "cwWiIs")
    host = words[0] if words else ""
    why = _failure(process, host)
    if _is_own(process, host) or not why:
        return process.complain(f"ping: bad address '{host}'") if not why else 0
    process.out(f"PING {host} ({host}): 56 data bytes\n")
    return process.complain("ping: sendto: Network is unreachable")


async def _nslookup(process: Process, argv: list[str]) -> int:
    _, words = options_of(argv)
    await sleep(0)
    process.out(";; connection timed out; no servers could be reached\n\n")
    return int(bool(words))


NETWORK_COMMANDS: dict[str, Command] = {
    "wget": _wget, "curl": _curl, "nc": _nc, "ncat": _nc, "ping": _ping, "nslookup": _nslookup,
}  # fmt: skip
