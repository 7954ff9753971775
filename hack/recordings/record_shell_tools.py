#!/usr/bin/env python3
"""Records what real shells and tools answer to the scripts in tests/data/shell_tools.json, in place.

    hack/recordings/record_shell_tools.py --busybox PATH [--gawk PATH]

Each case names its shell: `busybox` (busybox' shell with its own tools), or `bash` and `dash` (with the tools
of this machine; with --gawk, that as awk).
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

CASES = Path(__file__).parents[2] / "tests" / "data" / "shell_tools.json"


def record(case: dict, busybox: str, links: Path) -> dict:
    """Adds the shell's output and exit code to the case."""
    with tempfile.TemporaryDirectory() as directory:
        path = (
            f"{links / 'busybox'}:/usr/bin:/bin"
            if case["shell"] == "busybox"
            else f"{links / 'gnu'}:/usr/bin:/bin"
        )
        argv = [busybox, "sh"] if case["shell"] == "busybox" else [case["shell"]]
        env = {"PATH": path, "HOME": "/root", "LC_ALL": "C.UTF-8", "NAME": "value"}
        done = subprocess.run(
            [*argv, "-c", case["script"]], cwd=directory, env=env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=20, check=False,
        )  # fmt: skip
    return {**case, "output": done.stdout.decode("utf-8", "backslashreplace"), "code": done.returncode}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--busybox", required=True)
    parser.add_argument("--gawk", default="")
    options = parser.parse_args()
    busybox = str(Path(options.busybox).resolve())
    applets = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    with tempfile.TemporaryDirectory() as directory:
        links = Path(directory)
        (links / "busybox").mkdir()
        (links / "gnu").mkdir()
        for applet in applets:
            (links / "busybox" / applet).symlink_to(busybox)
        if options.gawk:
            (links / "gnu" / "awk").symlink_to(Path(options.gawk).resolve())
        cases = [record(case, busybox, links) for case in json.loads(CASES.read_text())]
    CASES.write_text(json.dumps(cases, indent=1, ensure_ascii=False) + "\n")
    print(f"{len(cases)} cases recorded")


if __name__ == "__main__":
    main()
