"""Makes a root file system of a program of this machine and the libraries that it is linked with."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from kubeskew.kubelet.containers.host.images.image_config import DEFAULT_PATH, BadImageError, ImageConfig

_MULTI_CALL = ("busybox", "toybox")
_SECONDS = 10
_LIBRARY = re.compile(r"(?:=>\s*)?(/[^\s()]+)\s+\(0x[0-9a-f]+\)")
_FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n",
    "etc/group": "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n",
    "etc/hosts": "127.0.0.1\tlocalhost\n::1\tlocalhost\n",
    "etc/hostname": "",
    "etc/resolv.conf": "",
}
_DIRECTORIES = {"root": 0o700, "tmp": 0o1777, "dev": 0o755, "proc": 0o755, "sys": 0o755}


def make_root(program: Path, name: str, root: Path) -> ImageConfig:
    """The program goes by a name of its own. Raises BadImageError."""
    try:
        with program.open("rb") as file:
            head = file.read(4)
    except OSError as error:
        raise BadImageError(f"the program {program} cannot be read: {error.strerror}") from error
    if head != b"\x7fELF":
        raise BadImageError(f"{program} is no program for this machine (no ELF file)")
    for path, mode in _DIRECTORIES.items():
        (root / path).mkdir(parents=True, exist_ok=True)
        (root / path).chmod(mode)
    for path, content in _FILES.items():
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(content)
    installed = root / "bin" / name
    installed.parent.mkdir(exist_ok=True)
    shutil.copyfile(program, installed)
    installed.chmod(0o755)
    for library in libraries(program):
        copied = root / str(library).lstrip("/")
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(library, copied)
        copied.chmod(0o755)
    env = {"PATH": DEFAULT_PATH}
    many = name.startswith(_MULTI_CALL)
    if many:
        _link_applets(program, root, installed)
    _open_to_all_users(root)
    if many:
        return ImageConfig(command=["sh"], env=env)
    return ImageConfig(entrypoint=[f"/bin/{name}"], env=env)


def _open_to_all_users(root: Path) -> None:
    """Gives what has no mode of its own the one that it has in images, independent of the umask."""
    for path in sorted(root.rglob("*")):
        if path.is_dir() and str(path.relative_to(root)) not in _DIRECTORIES:
            path.chmod(0o755)
    for name in _FILES:
        (root / name).chmod(0o644)


def libraries(program: Path) -> list[Path]:
    """The shared libraries of a program with its loader; none if it is linked statically."""
    return [Path(path) for path in dict.fromkeys(_LIBRARY.findall(_output("ldd", str(program))))]


def _link_applets(program: Path, root: Path, installed: Path) -> None:
    listed = _output(str(program), "--list-full") or _output(str(program), "--list")
    for line in listed.split():
        name = line.strip("/")
        if ".." in name or not name:
            continue
        # At its usual place, and in /bin, where images of busybox have them all.
        for link in (root / name, root / "bin" / name.rpartition("/")[2]):
            if not link.exists() and link.parent != root:
                link.parent.mkdir(parents=True, exist_ok=True)
                os.link(installed, link)


def _output(*command: str) -> str:
    try:
        finished = subprocess.run(  # noqa: S603 - the program of the user's choice
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return finished.stdout if finished.returncode == 0 else ""
