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
        f"#!{sys.executable} -S\n"
        "import sys\n"
        f"if sys.argv[1:] == ['--version']:\n    print('Kubernetes {version}')\n    raise SystemExit\n"
        f"if sys.argv[1:] == ['--help']:\n    print({usage.format(name=path.name)!r})\n    raise SystemExit\n"
        f"{body}\n"
    )
    path.chmod(0o755)
    return path
