"""No regular expression of ours may take quadratic time: clients choose what it is matched with."""

import importlib
import pkgutil
import re
import subprocess
import sys
import time
from typing import Any

import pytest

PACKAGES = ("kubeskew.apimachinery", "kubeskew.apiserver")
PIECES = (
    "1", "a", "A", ".", "-", "/", ":", " ", "\\", '"', "'", "(", "[", "{", "~", "%", "=", ",", "<", "é", "+",
    "_", "1.", "a.", "a-", "1h", "--", "a,", "a ", "\t", "a=", "0x", "a:", "a/", "1,", "1e", "::", "a1", "@",
    "a@", "1 ", "%4", "ab:", "$(", "()",
)  # fmt: skip
LENGTHS = (300, 4_000)
SEARCHED = 0.05  # seconds of CPU; one pass over 4,000 characters takes a fraction of a millisecond


def compiled_patterns() -> dict[str, re.Pattern[Any]]:
    """Every pattern that a module of ours compiles when it is imported."""
    found: dict[str, re.Pattern[Any]] = {}
    original = re.compile

    def noted(pattern: Any, flags: Any = 0) -> Any:
        result = original(pattern, flags)
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if caller.startswith(PACKAGES) and isinstance(result.pattern, str):
            found.setdefault(result.pattern, result)
        return result

    re.compile = noted  # type: ignore[assignment]  # noted for as long as the modules are imported
    for name in PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if "__main__" not in module.name:
                importlib.import_module(module.name)
    return found


def costs(pattern: re.Pattern[Any]) -> str:
    """The piece whose repetition takes long to match from the first character; empty if there is none."""
    for piece in PIECES:
        for tail in ("", "!", "\n\0"):
            for length in LENGTHS:
                text = (piece * length)[:length] + tail
                begun = time.process_time()
                pattern.match(text)
                pattern.fullmatch(text)
                if time.process_time() - begun > SEARCHED:
                    return f"{piece!r} x {length} {tail!r}"
    return ""


def main() -> None:
    """Print the patterns that take long, in a process that has imported nothing of ours before."""
    for text, pattern in compiled_patterns().items():
        if found := costs(pattern):
            print(f"{text!r}: {found}")  # noqa: T201 - read by the test


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_patterns_take_one_pass() -> None:
    """Anchored matches of long repetitions end at once, for every pattern of ours."""
    run = subprocess.run(
        [sys.executable, "-P", __file__], capture_output=True, text=True, check=False, timeout=220
    )

    assert run.returncode == 0, run.stderr
    assert run.stdout == ""


if __name__ == "__main__":
    main()
