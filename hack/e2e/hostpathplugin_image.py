"""Makes a root file system for the image `hostpathplugin` of upstream's suite, without Docker or a registry.

    python hack/e2e/hostpathplugin_image.py DIR --busybox ./busybox

A cluster file then maps the image to it: `images: {"*hostpathplugin*": {path: DIR}}`. The directory has the
tools of the given busybox, the program `/hostpathplugin`, and of this machine's Python what that needs, at
the paths that it has here.
"""

import argparse
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

PROGRAM = Path(__file__).resolve().parent / "hostpathplugin"
_LOADED = (
    "import contextlib, os, select, socket, sys, threading; "
    "print(*{m.__file__ for m in sys.modules.values() if getattr(m, '__file__', None)}, sep='\\n')"
)


def make(directory: Path, busybox: Path) -> None:
    """Fills a directory that is empty or not there. Raises OSError and subprocess.CalledProcessError."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in ("bin", "dev", "etc", "proc", "sys", "tmp", "var/lib/kubelet", "cdi"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    (directory / "tmp").chmod(0o1777)
    shutil.copy(busybox, directory / "bin" / "busybox")
    for applet in _output(busybox, "--list").split():
        link = directory / "bin" / applet
        if applet != "busybox":
            link.symlink_to("busybox")
    _add_python(directory)
    text = PROGRAM.read_text().partition("\n")[2]
    (directory / "hostpathplugin").write_text(f"#!{_interpreter()} -IS\n{text}")
    (directory / "hostpathplugin").chmod(0o755)


def _interpreter() -> Path:
    return Path(sys.executable).resolve()


def _add_python(directory: Path) -> None:
    """The interpreter, the modules that the program imports, and the libraries of all that is compiled."""
    loaded = [Path(path) for path in _output(_interpreter(), "-IS", "-c", _LOADED).split("\n") if path]
    library = Path(sysconfig.get_path("stdlib"))
    # Found first by the interpreter, which looks for its home by it.
    marker = library / "os.py"
    encodings = list((library / "encodings").glob("*.py"))
    files = {_interpreter(), marker, *loaded, *encodings}
    files |= {library_of for path in files for library_of in _linked(path)}
    for path in sorted(files):
        target = directory / path.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    (directory / library.relative_to("/") / "lib-dynload").mkdir(exist_ok=True)


def _linked(path: Path) -> list[Path]:
    """The shared libraries of a program or a compiled module, by the paths at which the loader finds them."""
    if path.suffix == ".py":
        return []
    lines = _output(Path("ldd"), str(path), check=False).splitlines()
    words = [word for line in lines for word in line.split() if word.startswith("/")]
    return [Path(word) for word in words if Path(word).is_file()]


def _output(program: Path, *arguments: str, check: bool = True) -> str:
    ended = subprocess.run([program, *arguments], capture_output=True, text=True, check=check)
    return ended.stdout


def main() -> int:
    """Makes the directory; gives the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path, metavar="DIR")
    parser.add_argument("--busybox", type=Path, required=True, metavar="PATH", help="a static busybox")
    options = parser.parse_args()
    if options.directory.exists() and any(options.directory.iterdir()):
        print(f"hostpathplugin_image: {options.directory} is not empty", file=sys.stderr)
        return 1
    try:
        make(options.directory, options.busybox.absolute())
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"hostpathplugin_image: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
