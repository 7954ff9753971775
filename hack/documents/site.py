"""Makes the site of what is there: documents of the repository's other folders, and pages made of the code.

A hook of MkDocs (mkdocs.yml). Documents stay where they are and link to each other as files; a link to one
that is a page of the site leads to that page, one to any other file to a copy of it.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

import command_reference
import operation_reference
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
DOCS = "docs/"
# Documents outside of docs/, and what they are called in the site.
DOCUMENTS = {
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    **{f"examples/{path.relative_to(ROOT / 'examples')}": f"examples/{path.relative_to(ROOT / 'examples')}"
       for path in sorted((ROOT / "examples").rglob("README.md"))},
}  # fmt: skip
MADE = {"commands.md": command_reference.page, "operations.md": operation_reference.page}
LINK = re.compile(r"(\]\()(?!\w+:|#)([^)#\s]+)")
FENCE = re.compile(r"^```console\b", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """MkDocs calls it; adds the documents, the files that they link to, and the generated pages."""
    for source, name in DOCUMENTS.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / source)))
    for name, page in MADE.items():
        files.append(File.generated(config, name, content=page()))
    sources = [_source(file.src_uri) for file in files.documentation_pages()]
    linked = {
        _target(source, link)
        for source in sources
        if (ROOT / source).is_file()
        for _, link in LINK.findall((ROOT / source).read_text())
    }
    for path in sorted(linked):
        name = _name(path)
        if files.get_file_from_path(name) is None and (ROOT / path).is_file():
            files.append(File.generated(config, name, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """MkDocs calls it; links lead to pages and copies, and prompts with answers have no button to copy
    them."""
    source, name = _source(page.file.src_uri), page.file.src_uri

    def leads(found: re.Match[str]) -> str:
        target = _target(source, found[2])
        if not (ROOT / target).is_file():
            return found[0]
        return found[1] + posixpath.relpath(_name(target), posixpath.dirname(name) or ".")

    return FENCE.sub("```{ .console .no-copy }", LINK.sub(leads, markdown))


def _source(name: str) -> str:
    """Path in the repository of a file of the site."""
    return next((source for source, shown in DOCUMENTS.items() if shown == name), DOCS + name)


def _name(path: str) -> str:
    """Name in the site of a file of the repository."""
    return DOCUMENTS.get(path) or (path.removeprefix(DOCS) if path.startswith(DOCS) else f"sources/{path}")


def _target(source: str, link: str) -> str:
    """Path in the repository of a link's target; a folder stands for its README."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
    return f"{path}/README.md" if (ROOT / path / "README.md").is_file() else path
