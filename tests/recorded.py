"""The places of the recorded answers and other data of the tests."""

from pathlib import Path

DATA = Path(__file__).parent / "data"
