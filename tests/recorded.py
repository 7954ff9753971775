"""Where the recorded answers and other data of the tests lie."""

from pathlib import Path

DATA = Path(__file__).parent / "data"
