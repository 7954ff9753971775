"""Commands import little, for users wait while they do."""

import subprocess
import sys


def test_starting_a_cluster_imports_no_sql():
    """SQLAlchemy would be a third of what `up` imports, which reads and writes no log itself."""
    imports = (
        "import sys, kubeskew.cluster.cluster, kubeskew.cli.commands.lifecycle, kubeskew.cluster.platform"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{imports}; print('sqlalchemy' in sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert done.stdout == "False\n"
