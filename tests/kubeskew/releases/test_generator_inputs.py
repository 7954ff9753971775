"""The facts in the repository: their format, the command that changes them, the data files made of them."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import source_trees
from hypothesis import given, settings
from hypothesis import strategies as st
from randomness import examples

from kubeskew.apimachinery.versions import NEWEST_MINOR, OLDEST_MINOR
from kubeskew.releases.catalogue.data_files import data_files
from kubeskew.releases.catalogue.differences import applied, difference
from kubeskew.releases.catalogue.inputs import SUBJECTS, Inputs, archive_text, canonical, table_text, unpacked

REPOSITORY = Path(__file__).parents[3]
HACK = REPOSITORY / "hack" / "catalogue"
FACTS = HACK / "facts"
LARGEST = 600_000

SCALARS = st.none() | st.booleans() | st.integers(-2, 2) | st.floats(allow_nan=False) | st.text(max_size=3)
KEYS = st.text("ab~+-", max_size=2)  # few, so that documents share them
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(KEYS, VALUES, max_size=4)


def run(*command: object) -> subprocess.CompletedProcess[str]:
    """Runs a Python script with the packages of this repository."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.run(
        [sys.executable, *map(str, command)], capture_output=True, text=True, check=False, env=environment
    )


def facts_command(*arguments: object) -> subprocess.CompletedProcess[str]:
    return run(HACK / "facts.py", *arguments)


def test_the_data_is_what_the_generator_makes() -> None:
    """Each committed file is, to the byte, what the generator makes of the committed facts."""
    made = dict(data_files(Inputs(FACTS), HACK / "previews"))

    assert len(made) == 4
    assert [path for path, text in made.items() if (REPOSITORY / path).read_text("utf-8") != text] == []


def test_the_facts_are_small() -> None:
    """All inputs of the generator together stay below the size that was promised."""
    assert sum(path.stat().st_size for path in FACTS.iterdir()) < LARGEST


@pytest.mark.parametrize("subject", SUBJECTS)
def test_committed_subjects_are_canonical(subject: str) -> None:
    """A subject's file holds the one text for its documents, and each document says of which minor it is."""
    text = gzip.decompress((FACTS / f"{subject}.json.gz").read_bytes()).decode()
    documents = Inputs(FACTS).documents(subject)

    assert archive_text(documents) == text
    assert {minor: document["version"] for minor, document in documents.items()} == {
        minor: f"1.{minor}" for minor in documents
    }
    assert list(documents) == sorted(documents)
    assert subject != "types" or list(documents) == list(range(OLDEST_MINOR, NEWEST_MINOR + 1))


@given(older=DOCUMENTS, newer=DOCUMENTS)
@settings(max_examples=examples(200), deadline=None)
def test_a_difference_makes_the_newer_of_the_older(older: dict[str, Any], newer: dict[str, Any]) -> None:
    """A difference, written as JSON, makes exactly the newer document, and leaves the older one as it was."""
    before = canonical(older)
    written = json.loads(canonical(difference(older, newer)))

    assert canonical(applied(older, written)) == canonical(newer)
    assert canonical(older) == before
    assert (written == {}) == (canonical(older) == canonical(newer))


@given(documents=st.dictionaries(st.integers(26, 40), DOCUMENTS, min_size=1, max_size=5))
@settings(max_examples=examples(100), deadline=None)
def test_a_subject_is_read_as_it_was_written(documents: dict[int, dict[str, Any]]) -> None:
    """The documents of any set of minors come out of a subject's text as they went in."""
    assert canonical(unpacked(json.loads(archive_text(documents)))) == canonical(documents)


@pytest.mark.parametrize("name", [path.stem for path in sorted(FACTS.glob("*.json"))])
def test_committed_tables_are_canonical(name: str) -> None:
    """A table is written as the commands write it, so that a change is the lines that changed."""
    assert table_text(Inputs(FACTS).table(name)) == (FACTS / f"{name}.json").read_text("utf-8")


def test_gates_of_fields_have_a_source() -> None:
    """Each field that is said by hand to have a gate is in the catalogue, and says where that is from."""
    made = dict(data_files(Inputs(FACTS), HACK / "previews"))
    definitions = json.loads(made["apimachinery/data/catalogue.json"])["definitions"]
    gates = json.loads(made["apimachinery/data/gates.json"])["gates"]

    for entry in Inputs(FACTS).table("field-gates"):
        definition, _, field = entry["field"].rpartition(".")
        assert field in definitions[f"io.k8s.api.{definition}"]["f"]
        assert set(entry["gates"]) <= gates.keys()
        assert entry["source"].startswith("pkg/")
        assert entry["certain"] in (True, False)


def test_the_order_of_writing_does_not_count(tmp_path: Path) -> None:
    """Files are equal to the byte whichever minor came first, and one that is put again changes nothing."""
    documents = {26: {"a": 1}, 27: {"a": 2, "b": {"c": []}}, 28: {"b": {"c": [1]}}}
    folders = [tmp_path / "one", tmp_path / "other"]
    for folder, minors in zip(folders, ((26, 27, 28), (28, 26, 27)), strict=True):
        folder.mkdir()
        for minor in minors:
            assert Inputs(folder).put("types", minor, documents[minor])

    assert not Inputs(folders[0]).put("types", 27, documents[27])
    assert Inputs(folders[0]).documents("types") == documents
    assert len({(folder / "types.json.gz").read_bytes() for folder in folders}) == 1


def test_a_tree_says_of_its_minor_what_the_facts_say(tmp_path: Path) -> None:
    """A tree that is written of the shipped data changes nothing of the facts that it is read into."""
    shutil.copytree(FACTS, tmp_path / "facts")
    tree = source_trees.tree(37).write(tmp_path / "tree")

    parts = ("discovery", "storage", "columns")
    read = facts_command("--facts", tmp_path / "facts", "read", tree, *parts)

    assert read.stderr.splitlines() == [f"{part} 1.37: unchanged" for part in parts]
    for file in sorted(FACTS.iterdir()):
        assert (tmp_path / "facts" / file.name).read_bytes() == file.read_bytes()


def test_facts_are_shown_changed_and_put_back(tmp_path: Path) -> None:
    """The command `put` takes what `show` prints, and a mended document shows in `diff`."""
    facts = tmp_path / "facts"
    facts.mkdir()
    for minor in (26, 27):
        document = {"version": f"1.{minor}", "types": {"core/v1": {"Pod": {"fields": {}}}}}
        (tmp_path / f"{minor}.json").write_text(json.dumps(document), "utf-8")
        assert facts_command("--facts", facts, "put", "types", tmp_path / f"{minor}.json").returncode == 0

    shown = facts_command("--facts", facts, "show", "types", "1.27")
    mended = json.loads(shown.stdout)
    mended["types"]["core/v1"]["Pod"]["fields"]["spec"] = {"type": "PodSpec"}
    (tmp_path / "mended.json").write_text(json.dumps(mended), "utf-8")
    facts_command("--facts", facts, "put", "types", tmp_path / "mended.json")
    found = json.loads(facts_command("--facts", facts, "diff", "types", "1.26", "1.27").stdout)

    assert found == {
        "+version": "1.27",
        "~types": {"~core/v1": {"~Pod": {"~fields": {"+spec": {"type": "PodSpec"}}}}},
    }


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("show", "types", "1.99"), "there is no types of 1.99; these are: 1.26, 1.27"),
        (("show", "types", "new"), "'new' is no release; write 1.NN"),
        (("read", HACK), "is no Kubernetes source tree"),
        (
            ("read", HACK, "roles"),
            "roles is no part; these are: types, openapi, discovery, storage, columns, gates",
        ),
        (("put", "types", HACK / "facts" / "discovery.json"), "a document of types has `version` (1.NN)"),
    ],
)
def test_facts_refused(arguments: tuple[object, ...], complaint: str) -> None:
    """The command names what is wrong with a minor or a file, and ends with an error."""
    refused = facts_command(*arguments)

    assert refused.returncode != 0
    assert complaint in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_differing_file_is_named(tmp_path: Path) -> None:
    """`--check` ends with an error and one line with the files that the generator makes otherwise."""
    for folder in ("hack/catalogue", "apimachinery/data"):
        shutil.copytree(REPOSITORY / folder, tmp_path / folder)
    command = tmp_path / "hack/catalogue/generate_catalogue.py"
    with (tmp_path / "apimachinery/data/gates.json").open("a", encoding="utf-8") as file:
        file.write("\n")

    checked = run(command, "--check")

    assert checked.returncode == 1
    assert checked.stderr == "`make catalogue` makes other files than these: apimachinery/data/gates.json\n"
    assert run(command).stderr == "changed: apimachinery/data/gates.json\n"
    assert run(command, "--check").returncode == 0
