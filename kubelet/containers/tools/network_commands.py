"""Commands that use the network, which fake containers do not have: they fail as without a route."""

import re
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from kubeskew.kubelet.containers.execution.process import Process
from kubeskew.kubelet.containers.execution.waiting import sleep
from kubeskew.kubelet.containers.tools.options import options_of

Command = Callable[[Process, list[str]], Awaitable[int]]

_ADDRESS = re.compile(r"\d{1,3}(\.\d{1,3}){3}|\[?[0-9a-fA-F:]+:[0-9a-fA-F:]*\]?")
_CURL_UNRESOLVED, _CURL_REFUSED = 6, 7
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})  # noqa: S104 - a name, nothing listens on it


def _failure(host: str) -> str:
    """Returns the error of a connection: refused for the container's own names, no route for other hosts."""
    if host in _LOCAL:
        return "Connection refused"
    return "Network is unreachable" if _ADDRESS.fullmatch(host) else ""


def _target(url: str) -> tuple[str, int]:
    parts = urlsplit(url if "://" in url else f"http://{url}")
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


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
    why = _failure(host)
    await sleep(0)
    if not why:
        return process.complain(f"wget: bad address '{host}{'' if port in {80, 443} else f':{port}'}'")
    if "q" not in options:
        process.complain(f"Connecting to {host}:{port} ({host}:{port})")
    return process.complain(f"wget: can't connect to remote host ({host}): {why}")


async def _curl(process: Process, argv: list[str]) -> int:
    words, urls, silent, shows = argv[1:], [], False, False
    while words:
        word = words.pop(0)
        if word == "--url" and words:
            urls.append(words.pop(0))
        elif word.startswith("--"):
            silent |= word == "--silent"
            shows |= word == "--show-error"
            if "=" not in word and word in _CURL_VALUED and words:
                words.pop(0)
        elif word.startswith("-") and len(word) > 1:
            letters = word[1:]
            silent |= "s" in letters
            shows |= "S" in letters
            if letters[-1] in "XHdoumwAeFTbckECDxrK" and letters[-1] not in "k" and words:
                words.pop(0)
        else:
            urls.append(word)
    if not urls:
        process.complain("curl: try 'curl --help' or 'curl --manual' for more information")
        return 2
    host, port = _target(urls[0])
    await sleep(0)
    why = _failure(host)
    code = _CURL_REFUSED if why else _CURL_UNRESOLVED
    if not silent or shows:
        text = f"Failed to connect to {host} port {port} after 0 ms: Couldn't connect to server"
        process.complain(f"curl: ({code}) " + (text if why else f"Could not resolve host: {host}"))
    return code


_CURL_VALUED = frozenset({
    "--request", "--header", "--data", "--output", "--user", "--max-time", "--connect-timeout", "--write-out",
    "--retry", "--cacert", "--cert", "--key", "--data-binary", "--resolve", "--retry-delay",
    "--user-agent",
})  # fmt: skip


async def _nc(process: Process, argv: list[str]) -> int:
    """Runs `nc [-zv] [-w SECONDS] HOST PORT`; nothing connects to a listener."""
    options, words = options_of(argv, "wpseio")
    if "l" in options:
        await sleep(float("inf"))
    if not words:
        return process.complain(
            "BusyBox v1.36.1 multi-call binary.\n\nUsage: nc [OPTIONS] HOST PORT  - connect"
        )
    host, port = words[0], words[1] if len(words) > 1 else "0"
    await sleep(0)
    why = _failure(host)
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
    why = _failure(host)
    if host in _LOCAL or not why:
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
