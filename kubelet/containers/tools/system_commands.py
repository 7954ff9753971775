"""Commands that show the machine and its time."""

import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from kubeskew.kubelet.containers.execution.process import Process
from kubeskew.kubelet.containers.tools.options import options_of

Command = Callable[[Process, list[str]], Awaitable[int]]

# The machine that containers see: made up, the same on every node (kubelet/containers/downward.py).
_MEMORY_KIB, _USED_KIB, _CACHED_KIB = 32 << 20, 4 << 20, 8 << 20
_CPUS = 8
_DATES = (
    "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d",
    "%Y.%m.%d-%H:%M:%S", "%Y%m%d%H%M", "%a %b %d %H:%M:%S UTC %Y", "%d %b %Y", "%m/%d/%Y",
)  # fmt: skip
_RELATIVE = re.compile(r"([+-]?\d+)\s*(sec|second|min|minute|hour|day|week|month|year)s?(\s+ago)?")
_SECONDS = {"sec": 1, "second": 1, "min": 60, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
_ISO_FORMS = {"": "%Y-%m-%d", "d": "%Y-%m-%d", "s": "%Y-%m-%dT%H:%M:%S+00:00", "m": "%Y-%m-%dT%H:%M+00:00"}


async def _date(process: Process, argv: list[str]) -> int:
    """`date [-u] [-d TIME] [-I[TIMESPEC]] [-R] [-r FILE] [+FORMAT]`."""
    now: datetime = process.machine.now().astimezone(UTC)
    form, words, moment = "%a %b %e %H:%M:%S UTC %Y", argv[1:], now
    while words:
        word = words.pop(0)
        if word.startswith("+"):
            form = word[1:]
        elif word.startswith(("-I", "--iso-8601")):
            form = _ISO_FORMS.get(
                (word[2:] if word[1] == "I" else word.partition("=")[2])[:1], _ISO_FORMS["s"]
            )
        elif word in {"-R", "--rfc-2822", "--rfc-email"}:
            form = "%a, %d %b %Y %H:%M:%S +0000"
        elif word.startswith(("-d", "--date")):
            text = (
                word.partition("=")[2]
                if word.startswith("--date=")
                else word[2:]
                if word[1] == "d" and word[2:]
                else ""
            )
            text = text or (words.pop(0) if words else "")
            found = moment_of(text, now)
            if found is None:
                return process.complain(f"date: invalid date '{text}'")
            moment = found
        elif word == "-r" and words:
            file = process.machine.files.look(process.path(words[0]))
            if file is None:
                return process.complain(f"date: {words[0]}: No such file or directory")
            moment = datetime.fromtimestamp(file.changed, UTC)
            words.pop(0)
        elif word in {"-u", "--utc", "--universal", "-D"}:
            continue
        elif word in {"-s", "--set"}:
            return process.complain("date: can't set date: Operation not permitted")
        elif word.startswith("-") and len(word) > 1:
            return process.complain(f"date: unrecognized option: {word.lstrip('-')}")
        else:
            return process.complain(f"date: invalid date '{word}'")
    process.out(_formatted(moment, form) + "\n")
    return 0


def moment_of(text: str, now: datetime) -> datetime | None:
    """Returns the moment that `date -d` names; None if it is invalid."""
    text = text.strip()
    if re.fullmatch(r"@-?\d+(\.\d+)?", text):
        return datetime.fromtimestamp(float(text[1:]), UTC)
    named = {"now": 0, "today": 0, "": 0, "yesterday": -86400, "tomorrow": 86400}
    if text.lower() in named:
        return now + timedelta(seconds=named[text.lower()])
    relative = _RELATIVE.fullmatch(text)
    if relative is not None and relative[2] in _SECONDS:
        seconds = int(relative[1]) * _SECONDS[relative[2]]
        return now + timedelta(seconds=-seconds if relative[3] else seconds)
    clock = re.fullmatch(r"(\d{1,2}):(\d{2})(?::(\d{2}))?", text)
    if clock is not None and int(clock[1]) < 24:
        return now.replace(hour=int(clock[1]), minute=int(clock[2]), second=int(clock[3] or 0), microsecond=0)
    for form in _DATES:
        try:
            found = datetime.strptime(text.replace("Z", "+00:00"), form)  # noqa: DTZ007 - UTC is set below
        except ValueError:
            continue
        return found.astimezone(UTC) if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return None


def _formatted(moment: datetime, form: str) -> str:
    nanoseconds = f"{moment.microsecond * 1000:09d}"
    form = form.replace("%%", "\0").replace("%s", str(int(moment.timestamp())))
    form = re.sub(r"%([369])?N", lambda found: nanoseconds[: int(found[1] or 9)], form)
    form = form.replace("%-", "%-").replace("%:z", "+00:00").replace("\0", "%%")
    return moment.strftime(form)


async def _uptime(process: Process, argv: list[str]) -> int:
    """Shows the time since the container began: the machine's start is not known."""
    now: datetime = process.machine.now().astimezone(UTC)
    up = timedelta(seconds=int(process.machine.uptime()))
    if "-s" in argv:
        process.out((now - up).strftime("%Y-%m-%d %H:%M:%S\n"))
        return 0
    hours, minutes = up.seconds // 3600, up.seconds // 60 % 60
    days = f"{up.days} day{'s' if up.days != 1 else ''}, " if up.days else ""
    shown = f"{hours:2d}:{minutes:02d}" if hours else f"{minutes} min"
    process.out(f" {now:%H:%M:%S} up {days}{shown},  load average: 0.00, 0.00, 0.00\n")
    return 0


async def _free(process: Process, argv: list[str]) -> int:
    options, _ = options_of(argv)
    shift = next(
        (count for letter, count in {"b": -10, "k": 0, "m": 10, "g": 20}.items() if letter in options), 0
    )
    free, available = _MEMORY_KIB - _USED_KIB - _CACHED_KIB, _MEMORY_KIB - _USED_KIB
    rows = [(_MEMORY_KIB, _USED_KIB, free, 0, _CACHED_KIB, available), (0, 0, 0)]
    process.out("              total        used        free      shared  buff/cache   available\n")
    for name, row in zip(("Mem:", "Swap:"), rows, strict=True):
        shown = (
            _human(count) if "h" in options else str(count >> shift if shift >= 0 else count << -shift)
            for count in row
        )
        process.out(f"{name:<8}" + "".join(f"{text:>12}" for text in shown) + "\n")
    return 0


def _human(kib: int) -> str:
    size = float(kib)
    for unit in "KMG":
        if size < 1024 or unit == "G":
            return f"{size:.1f}{unit}" if size else "0"
        size /= 1024
    return "0"


async def _ps(process: Process, argv: list[str]) -> int:
    """Lists processes as busybox, or with procps' options as `ps aux` and `ps -ef`."""
    words = "".join(argv[1:]).lstrip("-")
    listed = [*process.machine.listed()]
    now: datetime = process.machine.now().astimezone(UTC)
    if "o" in words:
        columns = argv[-1].replace("=", "").split(",")
        values = {"pid": 6, "user": 8, "comm": 16, "args": 0, "cmd": 0, "command": 0}
        process.out(
            " ".join(f"{column.upper():<{values.get(column, 0)}}" for column in columns).rstrip() + "\n"
        )
        for pid, name in listed:
            row = {
                "pid": str(pid),
                "user": "root",
                "comm": name.split(" ")[0],
                "args": name,
                "cmd": name,
                "command": name,
            }
            process.out(
                " ".join(f"{row.get(one, ''):<{values.get(one, 0)}}" for one in columns).rstrip() + "\n"
            )
    elif "u" in words:
        process.out("USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND\n")
        for pid, name in listed:
            process.out(f"root     {pid:>7}  0.0  0.0   2576   908 ?        Ss   {now:%H:%M}   0:00 {name}\n")
    elif "f" in words:
        process.out("UID          PID    PPID  C STIME TTY          TIME CMD\n")
        for pid, name in listed:
            process.out(f"root     {pid:>7}       0  0 {now:%H:%M} ?        00:00:00 {name}\n")
    else:
        process.out("PID   USER     TIME  COMMAND\n")
        for pid, name in listed:
            process.out(f"{pid:>5} root      0:00 {name}\n")
    return 0


async def _pgrep(process: Process, argv: list[str]) -> int:
    options, words = options_of(argv)
    if not words:
        process.complain(f"{argv[0]}: no pattern given")
        return 2
    pattern, code = re.compile(words[0]), 1
    own = process.machine.tasks.main_pid if not process.machine.is_main else 0
    for pid, name in process.machine.listed():
        if pid != own and pattern.search(name if "f" in options else name.split(" ")[0]):
            process.out(f"{pid} {name}\n" if {"a", "l"} & options.keys() else f"{pid}\n")
            code = 0
    return code


async def _uname(process: Process, argv: list[str]) -> int:
    shown = {"s": "Linux", "n": process.machine.hostname, "r": "6.1.0", "v": "#1 SMP", "m": "x86_64"}
    letters = "".join(word[1:] for word in argv[1:]) or "s"
    chosen = [value for letter, value in shown.items() if letter in letters or "a" in letters]
    process.out(" ".join([*chosen, *(["GNU/Linux"] if {"a", "o"} & set(letters) else [])]) + "\n")
    return 0


async def _arch(process: Process, _argv: list[str]) -> int:
    process.out("x86_64\n")
    return 0


async def _nproc(process: Process, _argv: list[str]) -> int:
    process.out(f"{_CPUS}\n")
    return 0


async def _id(process: Process, argv: list[str]) -> int:
    options, _ = options_of(argv)
    shown = "root" if "n" in options else "0"
    if options.keys() & {"u", "g", "G"}:
        process.out(f"{shown}\n")
    else:
        process.out("uid=0(root) gid=0(root) groups=0(root)\n")
    return 0


async def _whoami(process: Process, _argv: list[str]) -> int:
    process.out("root\n")
    return 0


async def _hostname(process: Process, argv: list[str]) -> int:
    if {"-i", "-I", "-f"} & set(argv):
        hosts = process.machine.files.look("/etc/hosts")
        lines = (hosts.data or b"").decode().splitlines() if hosts is not None else []
        own = [line.split()[0] for line in lines if process.machine.hostname in line.split()]
        address = own[0] if own else "127.0.0.1"
        process.out(f"{process.machine.hostname if '-f' in argv else address}\n")
        return 0
    name = process.machine.hostname
    process.out(f"{name.split('.')[0] if '-s' in argv else name}\n")
    return 0


async def _tty(process: Process, _argv: list[str]) -> int:
    process.out("/dev/pts/0\n" if process.is_terminal else "not a tty\n")
    return int(not process.is_terminal)


async def _mount(process: Process, _argv: list[str]) -> int:
    process.out("overlay on / type overlay (rw,relatime)\n")
    for mount in process.machine.files.mounts:
        process.out(f"tmpfs on {mount.path} type tmpfs ({'ro' if mount.read_only else 'rw'},relatime)\n")
    return 0


SYSTEM_COMMANDS: dict[str, Command] = {
    "date": _date, "uptime": _uptime, "free": _free, "ps": _ps, "pgrep": _pgrep, "uname": _uname,
    "arch": _arch, "nproc": _nproc, "id": _id, "whoami": _whoami, "hostname": _hostname,
    "tty": _tty, "mount": _mount,
}  # fmt: skip
