"""Go that is newer than the parser's grammar."""

from pathlib import Path

import pytest

from kubeskew.releases.tree.go_syntax import GoFile, TreeError


def test_new_takes_an_expression(tmp_path: Path) -> None:
    """Go allows it since 1.26; the lines of such a file stay where they are."""
    path = tmp_path / "defaults.go"
    path.write_text("package v1\n\nvar on = new(true)\n\nvar size = new(int64(1))\n\nvar old = new(Pod)\n")

    assert [value.name for value in GoFile(path, "").variables()] == ["on", "size", "old"]


def test_what_is_no_go_is_refused(tmp_path: Path) -> None:
    """The line is that of the file."""
    path = tmp_path / "defaults.go"
    path.write_text("package v1\n\nvar on = new(true)\n\nvar size = = 1\n")

    with pytest.raises(TreeError, match=r"defaults.go:5: this is no Go"):
        GoFile(path, "")
