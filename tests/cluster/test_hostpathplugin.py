"""The program hack/e2e/hostpathplugin, in the place of sig-storage's image of that name."""

import socket
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "hack" / "e2e" / "hostpathplugin"


def test_connections_are_joined(tmp_path: Path):
    """A client of the Unix socket meets the connection that waits at the port, both ways and to the end; the
    program ends when its output is closed."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    path = tmp_path / "plugin.sock"
    path.touch()  # as a run before has left it
    flags = ["--v=5", f"--endpoint={path}", f"--proxy-endpoint=tcp://127.0.0.1:{port}"]
    process = subprocess.Popen([sys.executable, PROGRAM, *flags], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == f"joining {path} with tcp://127.0.0.1:{port}\n".encode()
        with socket.create_connection(("127.0.0.1", port)) as far, socket.socket(socket.AF_UNIX) as near:
            near.connect(str(path))
            near.sendall(b"call")
            assert far.recv(10) == b"call"
            far.sendall(b"answer")
            assert near.recv(10) == b"answer"
            near.close()
            assert far.recv(10) == b""
        process.stdout.close()
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()


def test_wrong_endpoints_are_refused(tmp_path: Path):
    """An endpoint that is no TCP address ends the program with an error."""
    flags = [f"--endpoint={tmp_path / 's'}", "--proxy-endpoint=unix:///x"]
    ended = subprocess.run([sys.executable, PROGRAM, *flags], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == "hostpathplugin: no tcp://HOST:PORT: unix:///x\n"


def test_the_image_has_all_that_the_program_needs(tmp_path: Path):
    """The directory has the tools of the given busybox, and Python with the modules of the program alone."""
    busybox = tmp_path / "busybox"
    busybox.write_text("#!/bin/sh\necho busybox; echo sh; echo rm\n")
    busybox.chmod(0o755)
    image = tmp_path / "image"
    tool = PROGRAM.with_name("hostpathplugin_image.py")
    subprocess.run([sys.executable, tool, image, "--busybox", busybox], check=True)
    assert {path.name: path.is_symlink() for path in (image / "bin").iterdir()} == {
        "busybox": False,
        "sh": True,
        "rm": True,
    }
    first, _, text = (image / "hostpathplugin").read_text().partition("\n")
    interpreter = first.removeprefix("#!").removesuffix(" -IS")
    assert (image / interpreter.removeprefix("/")).stat().st_mode & 0o111
    assert text == PROGRAM.read_text().partition("\n")[2]
    names = {path.name for path in image.rglob("*.py")}
    assert {"os.py", "socket.py", "threading.py", "contextlib.py"} <= names
    assert "argparse.py" not in names
    again = subprocess.run([sys.executable, tool, image, "--busybox", busybox], check=False)
    assert again.returncode == 1
