"""Prints the sizes and words of the product: modules, docstrings, names, documents.

python hack/checks/figures.py [-o json]
"""

import argparse
import ast
import json
import re
import statistics
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = (
    "apimachinery", "apiserver", "conformance", "controllers", "kubelet", "kubeskew", "metricsserver",
    "migrations", "scheduler", "simulation",
)  # fmt: skip
WORDS = re.compile(r"\b(tell|tells|told|hear|hears|heard|beside|anew|whatever)\b", re.IGNORECASE)
_SMALL = 40  # lines
_OPENINGS = 6


def modules() -> Iterator[Path]:
    """Yields the files of the product, links left out."""
    for folder in PRODUCT:
        yield from (path for path in sorted((ROOT / folder).rglob("*.py")) if path.resolve() == path)


def docstrings(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module) and (
            found := ast.get_docstring(node)
        ):
            yield found


def figures() -> dict[str, object]:
    texts = {path: path.read_text() for path in modules()}
    lines = {path: len(text.splitlines()) for path, text in texts.items() if path.name != "__init__.py"}
    openings = Counter(found.split()[0] for text in texts.values() for found in docstrings(text))
    count = sum(openings.values())
    return {
        "modules": len(lines),
        "lines, median": statistics.median(lines.values()),
        "lines, largest": max(lines.values()),
        f"modules below {_SMALL} lines": sum(each < _SMALL for each in lines.values()),
        "files of the registry": sum("registry" in path.relative_to(ROOT).parts for path in texts),
        "modules in -ing": sum(path.stem.endswith("ing") for path in lines),
        "words to avoid": sum(len(WORDS.findall(text)) for text in texts.values()),
        "docstrings": count,
        **{
            f"docstrings that begin with {word}": f"{number} ({number / count:.0%})"
            for word, number in openings.most_common(_OPENINGS)
        },
        **{
            f"lines of {name}": len((ROOT / name).read_text().splitlines())
            for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    found = figures()
    if parser.parse_args().output == "json":
        print(json.dumps(found, indent=1))
        return
    for name, value in found.items():
        print(f"{name:45} {value}")


if __name__ == "__main__":
    main()
