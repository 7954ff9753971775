"""Trees that somebody changed anyhow: they are read, or refused in one line."""

import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import test_tree_gates
import test_tree_printer_columns
import test_tree_resource_gates
import test_tree_roles
import test_tree_storage_versions
from written_trees import written_tree

from kubeskew.releases.tree.code_files import code_files
from kubeskew.releases.tree.gates import gates
from kubeskew.releases.tree.go_syntax import TreeError
from kubeskew.releases.tree.printer_columns import column_descriptions, printer_columns
from kubeskew.releases.tree.resource_gates import resource_gates
from kubeskew.releases.tree.roles import roles
from kubeskew.releases.tree.source_tree import SourceTree
from kubeskew.releases.tree.storage_versions import storage_versions

READERS: dict[str, tuple[Callable[[SourceTree], object], Mapping[str, str]]] = {
    "gates": (
        gates,
        {test_tree_gates.KUBE: test_tree_gates.TABLES, test_tree_gates.GENERIC: test_tree_gates.SHARED},
    ),
    "roles": (roles, test_tree_roles.FILES),
    "storage versions": (storage_versions, test_tree_storage_versions.FILES),
    "columns": (printer_columns, test_tree_printer_columns.FILES),
    "descriptions": (column_descriptions, test_tree_printer_columns.FILES),
    "gates of resources": (resource_gates, test_tree_resource_gates.FILES),
    "code": (code_files, test_tree_roles.FILES),
}
CHANGES = 60
EXPRESSIONS = (
    *(
        "nil",
        "true",
        "x",
        '"s"',
        "f()",
        "7",
        "-1",
        "1.5",
        "'c'",
        "`raw`",
        "X{}",
        "[]string{}",
        "other.Name",
        "",
    ),
    *("a.b.c", "func() {}", "&x", "x...", 'map[string]string{"a": "b"}', "x[0]", "!x", "x + 1", "return x"),
)
TOKEN = re.compile(r'"[^"\n]*"|[\w.]+\([^()\n]*\)|\w+|[{}()\[\],.:]')


def changed(text: str, source: random.Random) -> str:
    """The text with a line gone, doubled or moved, or with another expression in it."""
    lines = text.split("\n")
    place, other = source.randrange(len(lines)), source.randrange(len(lines))
    match source.choice(("gone", "doubled", "moved", "other", "other", "other")):
        case "gone":
            del lines[place]
        case "doubled":
            lines.insert(place, lines[place])
        case "moved":
            lines[place], lines[other] = lines[other], lines[place]
        case _ if tokens := list(TOKEN.finditer(lines[place])):
            token = source.choice(tokens)
            line = lines[place]
            lines[place] = line[: token.start()] + source.choice(EXPRESSIONS) + line[token.end() :]
    return "\n".join(lines)


@pytest.mark.parametrize("subject", READERS)
def test_a_changed_tree_is_read_or_refused_in_one_line(tmp_path: Path, subject: str) -> None:
    """No reader falls over, and both happens."""
    read, files = READERS[subject]
    source = random.Random(subject)
    written_tree(tmp_path, files)
    refused = []
    for _ in range(CHANGES):
        path = source.choice(sorted(files))
        text = changed(files[path], source)
        if source.random() < 0.5:
            text = changed(text, source)
        (tmp_path / path).write_text(text, "utf-8")
        try:
            read(SourceTree(tmp_path))
        except TreeError as error:
            refused.append(str(error))
        (tmp_path / path).write_text(files[path], "utf-8")

    assert not [error for error in refused if "\n" in error]
    assert 0 < len(refused) < CHANGES or subject == "code"
