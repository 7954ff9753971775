"""The rules of declarative validation, tag by tag: errors, texts, paths, and what an update leaves alone."""

from typing import Any

import pytest

from kubeskew.apimachinery.go_formats import quoted
from kubeskew.apimachinery.schema import Field, Kind, Schema
from kubeskew.apiserver.registry.declarative.checks import Finding, Level, Operation
from kubeskew.apiserver.registry.declarative.compiler import Compiler, Settings
from kubeskew.releases.catalogue.validation_tags import rules_of

STRING, NUMBER, FLAG = Schema(Kind.STRING), Schema(Kind.INTEGER, format="int32"), Schema(Kind.BOOLEAN)
ITEM = Schema(
    Kind.OBJECT,
    "test.Item",
    fields={
        "name": Field(STRING, omit_empty=False),
        "size": Field(NUMBER, rules=[["maximum", 9]]),
        "note": Field(STRING, pointer=True),
    },
)
LONG = "must be no more than 253 bytes"
LONG_NAME = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
SHORT_NAME = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
KEY_NAME = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
IDENTIFIER = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
    "characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is "
    "'[A-Za-z_][A-Za-z0-9_]*')"
)

NEWEST = Settings()
UPPER_UUID = "123E4567-e89b-12d3-a456-426614174000"
BOTH = 'a[{"name": "x"}]', 'a[{"name": "y"}]'
SHOWN = quoted(f"{{{', '.join(BOTH)}}}")
NO_DOMAIN = "a name must be a domain-prefixed path, such as 'example.com/my-prop'"
TOO_BIG = "Invalid value: 10: must be less than or equal to 9"


def listed(items: Schema) -> Schema:
    return Schema(Kind.LIST, items=items)


def mapped(items: Schema) -> Schema:
    return Schema(Kind.MAP, items=items)


def field(schema: Schema, *tags: str, pointer: bool = False, **more: Any) -> Field:
    return Field(schema, pointer=pointer, rules=rules_of([f"k8s:{tag}" for tag in tags]), **more)


def struct(fields: dict[str, Field], *tags: str) -> Schema:
    return Schema(Kind.OBJECT, "test.Thing", fields=fields, rules=rules_of([f"k8s:{tag}" for tag in tags]))


def findings(
    schema: Schema, new: Any, old: Any = None, *options: str, settings: Settings = NEWEST
) -> list[Finding]:
    operation = Operation(old is not None, frozenset(options))
    return list(Compiler(settings).struct(schema)(operation, "", new, old))


def texts(schema: Schema, new: Any, old: Any = None, *options: str) -> list[str]:
    return [str(error) for error, _ in findings(schema, new, old, *options)]


VALUES: list[tuple[Field, Any, list[str]]] = [
    # values that must be there, may be, or must not be
    (field(STRING, "required"), None, ["a: Required value"]),
    (field(STRING, "required", "maxLength=1"), "", ["a: Required value"]),
    (field(STRING, "required", pointer=True), "", []),
    (field(NUMBER, "required"), 0, ["a: Required value"]),
    (field(FLAG, "required", pointer=True), False, []),
    (field(listed(STRING), "required"), [], ["a: Required value"]),
    (field(mapped(STRING), "required"), {}, ["a: Required value"]),
    (field(ITEM, "required", pointer=True), None, ["a: Required value"]),
    (field(NUMBER, "optional", "minimum=1"), 0, []),
    (
        field(NUMBER, "optional", "minimum=1", pointer=True),
        0,
        ["a: Invalid value: 0: must be greater than or equal to 1"],
    ),
    (field(STRING, "optional", has_default=True, default="x"), None, ["a: Required value"]),
    (
        field(STRING, "optional", "format=k8s-short-name", has_default=True, default=""),
        None,
        [f'a: Invalid value: "": {SHORT_NAME}'],
    ),
    (field(STRING, "forbidden", "maxLength=1"), "xy", ["a: Forbidden"]),
    (field(STRING, "forbidden", "minLength=1"), None, []),
    # limits
    (field(STRING, "maxLength=3"), "ä" * 4, ["a: Too long: may not be more than 3 characters"]),
    (field(STRING, "maxLength=1"), "ab", ["a: Too long: may not be more than 1 character"]),
    (field(STRING, "maxBytes=3"), "ää", ["a: Too long: may not be more than 3 bytes"]),
    (field(STRING, "maxBytes=3", pointer=True), None, []),
    (field(STRING, "minLength=3"), "ä", ["a: Too short: must be at least 3 characters"]),
    (field(STRING, "minLength=0"), "", []),
    (field(listed(STRING), "maxItems=1"), ["a", "b"], ["a: Too many: 2: must have at most 1 item"]),
    (field(listed(STRING), "minItems=2"), ["a"], ["a: Too few: 1: must have at least 2 items"]),
    (field(listed(ITEM), "maxItems=1"), [{"size": 10}, {}], ["a: Too many: 2: must have at most 1 item"]),
    (field(NUMBER, "minimum=0"), -1, ["a: Invalid value: -1: must be greater than or equal to 0"]),
    (field(NUMBER, "maximum=5"), 6, ["a: Invalid value: 6: must be less than or equal to 5"]),
    (field(STRING, 'neq="x"'), "x", ['a: Invalid value: "x": must not be equal to "x"']),
    (field(FLAG, "neq=true"), True, ["a: Invalid value: true: must not be equal to true"]),
    (field(NUMBER, "neq=7"), 7, ["a: Invalid value: 7: must not be equal to 7"]),
    # formats
    (field(STRING, "format=k8s-short-name"), "a.b", ['a: Invalid value: "a.b": must not contain dots']),
    (field(STRING, "format=k8s-long-name"), "A", [f'a: Invalid value: "A": {LONG_NAME}']),
    (field(STRING, "format=k8s-long-name"), "a" * 254, [f'a: Invalid value: "{"a" * 254}": {LONG}']),
    (field(STRING, "format=k8s-long-name-caseless"), "A.b", []),
    (
        field(STRING, "format=k8s-long-name-caseless"),
        "_",
        [
            'a: Invalid value: "_": '
            + LONG_NAME.replace("a lowercase RFC", "an RFC")
            .replace("of lower case alphanumeric", "of alphanumeric")
            .replace("'example.com'", "'Example.com'")
        ],
    ),
    (
        field(STRING, "format=k8s-label-key"),
        "a/",
        ['a: Invalid value: "a/": name part must be non-empty', f'a: Invalid value: "a/": {KEY_NAME}'],
    ),
    (
        field(STRING, "format=k8s-prefixed-label-key"),
        "b",
        ["a: Invalid value: \"b\": must include a prefix (e.g. 'example.com/key')"],
    ),
    (field(STRING, "format=k8s-prefixed-label-key"), "a.com/b", []),
    (
        field(STRING, "format=k8s-label-value"),
        "a" * 64,
        [f'a: Invalid value: "{"a" * 64}": must be no more than 63 bytes'],
    ),
    (
        field(STRING, "format=k8s-path-segment-name"),
        "a/%",
        ["a: Invalid value: \"a/%\": may not contain '/'", "a: Invalid value: \"a/%\": may not contain '%'"],
    ),
    (field(STRING, "format=k8s-path-segment-name"), "..", ["a: Invalid value: \"..\": may not be '..'"]),
    (
        field(STRING, "format=k8s-uuid"),
        UPPER_UUID,
        [f'a: Invalid value: "{UPPER_UUID}": must be a lowercase UUID in 8-4-4-4-12 format'],
    ),
    (field(STRING, "format=k8s-uuid"), "123e4567-e89b-12d3-a456-426614174000", []),
    (
        field(STRING, "format=k8s-resource-pool-name"),
        "a//A",
        [
            'a: Invalid value: "a//A": segment 1: must not be empty',
            f'a: Invalid value: "A": segment 2: {LONG_NAME}',
        ],
    ),
    (
        field(STRING, "format=k8s-extended-resource-name"),
        "requests.x",
        [
            f'a: Invalid value: "requests.x": {NO_DOMAIN}',
            'a: Invalid value: "requests.x": must not have "requests." prefix',
        ],
    ),
    (
        field(STRING, "format=k8s-extended-resource-name"),
        "kubernetes.io/x",
        ['a: Invalid value: "kubernetes.io/x": must not have "kubernetes.io/" domain'],
    ),
    (
        field(STRING, "format=k8s-resource-fully-qualified-name"),
        "x",
        ['a: Invalid value: "x": a fully qualified name must be a domain and a name separated by a slash'],
    ),
    (
        field(STRING, "format=k8s-resource-fully-qualified-name"),
        "/",
        ['a: Invalid value: "": prefix must not be empty', 'a: Invalid value: "": name must not be empty'],
    ),
    (
        field(STRING, "format=k8s-resource-fully-qualified-name"),
        f"a/{'1' * 33}",
        ["a: Too long: may not be more than 32 bytes", f'a: Invalid value: "{"1" * 33}": {IDENTIFIER}'],
    ),
    # lists and maps
    (field(listed(STRING), "listType=set"), ["x", "y", "x"], ['a[2]: Duplicate value: "x"']),
    (field(listed(STRING), "listType=atomic", "unique=set"), ["x", "x"], ['a[1]: Duplicate value: "x"']),
    (field(listed(STRING), "listType=set", "customUnique"), ["x", "x"], []),
    (
        field(listed(ITEM), "listType=map", "listMapKey=name"),
        [{"name": "x"}, {"name": "x", "size": 3}],
        ['a[1]: Duplicate value: {"name":"x","size":3}'],
    ),
    (
        field(listed(ITEM), "listType=map", "listMapKey=name", "listMapKey=note"),
        [{"name": "x"}, {"name": "x", "note": ""}, {"name": "x"}],
        ['a[2]: Duplicate value: {"name":"x"}'],
    ),
    (field(listed(ITEM)), [{}, {"size": 10}], [f"a[1].size: {TOO_BIG}"]),
    (field(listed(ITEM), "eachVal=+k8s:opaqueType"), [{"size": 10}], []),
    (field(ITEM, "opaqueType"), {"size": 10}, []),
    (field(ITEM, pointer=True), None, []),
    (field(mapped(ITEM)), {"k": {"size": 10}}, [f"a[k].size: {TOO_BIG}"]),
    (
        field(listed(STRING), "eachVal=+k8s:maxBytes=1"),
        ["x", "yy"],
        ["a[1]: Too long: may not be more than 1 byte"],
    ),
    (
        field(mapped(STRING), "eachVal=+k8s:maxBytes=1"),
        {"k": "yy"},
        ["a[k]: Too long: may not be more than 1 byte"],
    ),
    (
        field(mapped(STRING), "eachKey=+k8s:maxBytes=1"),
        {"kk": ""},
        ["a: Too long: may not be more than 1 byte"],
    ),
    (
        field(
            listed(ITEM),
            "listType=map",
            "listMapKey=name",
            'item(name: "x")=+k8s:subfield(size)=+k8s:required',
        ),
        [{"name": "y"}, {"name": "x"}],
        ["a[1].size: Required value"],
    ),
    (
        field(
            listed(ITEM),
            "listType=map",
            "listMapKey=name",
            'item(name: "x")=+k8s:zeroOrOneOfMember',
            'item(name: "y")=+k8s:zeroOrOneOfMember',
        ),
        [{"name": "y"}, {"name": "x"}],
        [f"a: Invalid value: {SHOWN}: must specify at most one of: `{BOTH[0]}`, `{BOTH[1]}`"],
    ),
    # structs
    (field(ITEM, "subfield(name)=+k8s:required"), {}, ["a.name: Required value"]),
    (field(ITEM, "subfield(name)=+k8s:optional", "subfield(name)=+k8s:minLength=2"), {}, []),
    (
        field(ITEM, "subfield(name)=+k8s:optional", "subfield(name)=+k8s:minLength=2"),
        {"name": "x", "size": 10},
        ["a.name: Too short: must be at least 2 characters", f"a.size: {TOO_BIG}"],
    ),
    (
        field(ITEM, "subfield(name)=+k8s:unionMember", "subfield(note)=+k8s:unionMember"),
        {},
        ['a: Invalid value: "": must specify one of: `name`, `note`'],
    ),
    # named types
    (
        Field(STRING, rules=[["type", [["enum", ["b", "a"]]]]]),
        "c",
        ['a: Unsupported value: "c": supported values: "a", "b"'],
    ),
    (Field(STRING, pointer=True, rules=[["type", [["enum", ["b", "a"]]]]]), None, []),
    (
        Field(listed(STRING), rules=[["items", [["type", [["maxBytes", 1]]]]]]),
        ["xx"],
        ["a[0]: Too long: may not be more than 1 byte"],
    ),
    (
        Field(mapped(STRING), rules=[["keys", [["type", [["maxBytes", 1]]]]]]),
        {"xx": ""},
        ["a: Too long: may not be more than 1 byte"],
    ),
    (
        Field(
            listed(STRING), rules=[["type", [["listType", "set"], ["items", [["type", [["maxBytes", 1]]]]]]]]
        ),
        ["xx", "xx"],
        [
            'a[1]: Duplicate value: "xx"',
            "a[0]: Too long: may not be more than 1 byte",
            "a[1]: Too long: may not be more than 1 byte",
        ],
    ),
]


@pytest.mark.parametrize(("declared", "value", "expected"), VALUES)
def test_values(declared: Field, value: Any, expected: list[str]) -> None:
    """A new value is checked as the tags of its field say, with upstream's texts."""
    given = {} if value is None else {"a": value}

    assert texts(struct({"a": declared}), given) == expected


CHANGES: list[tuple[Field, Any, Any, list[str]]] = [
    (field(STRING, "maxBytes=1"), "xx", "xx", []),
    (field(STRING, "maxBytes=1"), "xxx", "xx", ["a: Too long: may not be more than 1 byte"]),
    (field(STRING, "required"), None, None, []),
    (field(STRING, "required"), None, "x", ["a: Required value"]),
    (field(STRING, "immutable"), "y", "x", ["a: Invalid value: null: field is immutable"]),
    (field(STRING, "immutable"), "x", "x", []),
    (
        field(listed(STRING), "immutable", "maxItems=1", "listType=set"),
        ["x", "x"],
        ["x"],
        ["a: Invalid value: null: field is immutable", "a: Too many: 2: must have at most 1 item"],
    ),
    (field(listed(STRING), "immutable"), [], None, []),
    (field(STRING, "update=NoSet"), "x", None, ["a: Invalid value: null: field cannot be set once created"]),
    (
        field(STRING, "update=NoUnset"),
        None,
        "x",
        ["a: Invalid value: null: field cannot be cleared once set"],
    ),
    (
        field(STRING, "update=NoModify"),
        "y",
        "x",
        ["a: Invalid value: null: field cannot be modified once set"],
    ),
    (field(STRING, "update=NoModify"), "y", None, []),
    (
        field(STRING, "update=NoModify", "update=NoSet", pointer=True),
        "",
        None,
        ["a: Invalid value: null: field cannot be set once created"],
    ),
    (
        field(ITEM, "update=NoModify"),
        {"name": "x"},
        {},
        ["a: Invalid value: null: field cannot be modified once set"],
    ),
    (
        field(listed(ITEM), "listType=map", "listMapKey=name", "update=NoAddItem", "update=NoRemoveItem"),
        [{"name": "x"}, {"name": "y"}],
        [{"name": "x"}, {"name": "z"}],
        ["a[1]: Forbidden: item may not be added", "a: Forbidden: item may not be removed"],
    ),
    (
        field(mapped(STRING), "update=NoAddItem", "update=NoRemoveItem"),
        {"x": "", "y": ""},
        {"x": "", "z": ""},
        ["a[y]: Forbidden: item may not be added", "a[z]: Forbidden: item may not be removed"],
    ),
    (field(NUMBER, "monotonic"), 3, 4, ["a: Invalid value: 3: may not be decreased from 4"]),
    (field(NUMBER, "monotonic"), 4, 3, []),
    # items of a list are found again only if the list says how
    (field(listed(ITEM)), [{"size": 10}, {}], [{"size": 10}], [f"a[0].size: {TOO_BIG}"]),
    (
        field(listed(ITEM), "listType=map", "listMapKey=name"),
        [{"name": "x", "size": 10}, {"name": "y", "size": 11}],
        [{"name": "y", "size": 10}, {"name": "x", "size": 10}],
        ["a[1].size: Invalid value: 11: must be less than or equal to 9"],
    ),
    (
        field(listed(STRING), "listType=set", "eachVal=+k8s:maxBytes=1"),
        ["xx", "yy"],
        ["xx"],
        ["a[1]: Too long: may not be more than 1 byte"],
    ),
    (field(listed(STRING), "listType=set"), ["x", "x", "y"], ["x", "x"], ['a[1]: Duplicate value: "x"']),
    (
        field(mapped(STRING), "eachVal=+k8s:maxBytes=1"),
        {"a": "xx", "b": "xx"},
        {"a": "xx"},
        ["a[b]: Too long: may not be more than 1 byte"],
    ),
    (
        field(mapped(STRING), "eachKey=+k8s:maxBytes=1"),
        {"aa": "x", "bb": ""},
        {"aa": ""},
        ["a: Too long: may not be more than 1 byte"],
    ),
    (field(ITEM, "subfield(note)=+k8s:immutable"), {"note": "x", "name": "y"}, {"note": "x"}, []),
    (
        field(ITEM, "subfield(note)=+k8s:immutable"),
        {"note": "y"},
        {"note": "x"},
        ["a.note: Invalid value: null: field is immutable"],
    ),
    (field(ITEM), {"size": 10, "name": "y"}, {"size": 10}, []),
    (field(ITEM, pointer=True), {"size": 10}, None, [f"a.size: {TOO_BIG}"]),
]


@pytest.mark.parametrize(("declared", "new", "old", "expected"), CHANGES)
def test_changes(declared: Field, new: Any, old: Any, expected: list[str]) -> None:
    """A value that did not change is left alone; one that did is checked as new, and as a change."""
    before, after = ({} if value is None else {"a": value} for value in (old, new))

    assert texts(struct({"a": declared}), after, before) == expected


def union(*tags: str) -> Schema:
    member = tags[0]
    return struct(
        {
            "kind": field(STRING, *tags[1:]),
            "one": field(ITEM, member, pointer=True),
            "two": field(listed(STRING), member),
            "three": field(NUMBER, member),
        }
    )


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        ({"one": {}}, None, []),
        ({}, None, [': Invalid value: "": must specify one of: `one`, `two`, `three`']),
        (
            {"one": {}, "three": 1},
            None,
            [': Invalid value: "{one, three}": must specify exactly one of: `one`, `two`, `three`'],
        ),
        ({"one": {}, "three": 1}, {"one": {"name": "x"}, "three": 2}, []),
        (
            {"one": {}, "three": 1},
            {"one": {"name": "x"}, "two": ["x"]},
            [': Invalid value: "{one, three}": must specify exactly one of: `one`, `two`, `three`'],
        ),
    ],
)
def test_unions(new: Any, old: Any, expected: list[str]) -> None:
    """Exactly one member of a union is set; an update that sets the same members may go on."""
    assert texts(union("unionMember"), new, old) == expected


def test_zero_or_one() -> None:
    """Of these members none may be set, but not two."""
    schema = union("zeroOrOneOfMember")

    assert texts(schema, {}) == []
    assert texts(schema, {"two": ["x"], "three": 1}) == [
        ': Invalid value: "{two, three}": must specify at most one of: `one`, `two`, `three`'
    ]


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        ({"kind": "One", "one": {}}, None, []),
        (
            {"kind": "One", "two": ["x"]},
            None,
            [
                'one: Invalid value: "": must be specified when `kind` is "One"',
                'two: Invalid value: "": may only be specified when `kind` is "Two"',
            ],
        ),
        ({"kind": "One", "two": ["y"]}, {"kind": "One", "two": ["x"]}, []),
        (
            {"kind": "Two"},
            {"kind": "One"},
            ['two: Invalid value: "": must be specified when `kind` is "Two"'],
        ),
    ],
)
def test_discriminated_unions(new: Any, old: Any, expected: list[str]) -> None:
    """A discriminator names the member that is set."""
    assert texts(union("unionMember", "unionDiscriminator"), new, old) == expected


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        ({"mode": "Limited"}, None, ["limit: Required value"]),
        ({"mode": "Exempt", "limit": 3}, None, ["limit: Forbidden"]),
        ({"mode": "Exempt"}, None, []),
        ({"mode": "Other", "limit": 3}, None, ["limit: Forbidden"]),
        ({"mode": "Limited", "limit": 7}, None, ["limit: Invalid value: 7: must be less than or equal to 5"]),
        ({"mode": "Other", "limit": 3}, {"mode": "Other", "limit": 3, "x": 1}, []),
    ],
)
def test_modes(new: Any, old: Any, expected: list[str]) -> None:
    """Rules of a member follow the value of a discriminator; without one for it, it is forbidden."""
    schema = struct(
        {
            "mode": field(STRING, "discriminator"),
            "limit": field(
                NUMBER,
                'member("Limited")=+k8s:required',
                'member("Limited")=+k8s:maximum=5',
                'member("Exempt")=+k8s:forbidden',
                pointer=True,
            ),
        }
    )

    assert texts(schema, new, old) == expected


@pytest.mark.parametrize(
    ("options", "value", "expected"),
    [
        ((), "x", ["a: Forbidden"]),
        ((), None, []),
        (("Gate",), "x", ["a: Too short: must be at least 2 characters"]),
        (("Gate",), None, []),
    ],
)
def test_options(options: tuple[str, ...], value: Any, expected: list[str]) -> None:
    """A gate that the strategy passes on chooses between rules, and stops what stops without it."""
    declared = field(
        STRING,
        "ifDisabled(Gate)=+k8s:forbidden",
        "ifEnabled(Gate)=+k8s:optional",
        "ifEnabled(Gate)=+k8s:minLength=2",
    )

    assert texts(struct({"a": declared}), {"a": value}, None, *options) == expected


def test_excluded_values() -> None:
    """An option takes values out of an enumeration."""
    rules = [["type", [["enum", ["a", "b"], [["b", "Gate", False]]]]]]
    schema = struct({"a": Field(STRING, rules=rules)})

    assert texts(schema, {"a": "b"}) == ['a: Unsupported value: "b": supported values: "a"']
    assert texts(schema, {"a": "b"}, None, "Gate") == []


@pytest.mark.parametrize(
    ("tag", "new", "old", "expected"),
    [
        ("Required", {"a": 1}, None, ["b: Required value: must be set when a is set"]),
        ("Required", {"a": 1, "b": 1}, None, []),
        ("Required", {"a": 1}, {"a": 2}, []),
        ("Forbidden", {"a": 1, "b": 1}, None, ["b: Forbidden: may not be set when a is set"]),
        ("Forbidden", {"b": 1}, None, []),
    ],
)
def test_dependent_fields(tag: str, new: Any, old: Any, expected: list[str]) -> None:
    """A field asks for another one, or forbids it."""
    schema = struct({"a": field(NUMBER, f'dependent{tag}("b")'), "b": field(NUMBER)})

    assert texts(schema, new, old) == expected


def test_levels() -> None:
    """A finding has the level of its tag; a tag of any level stops those behind it."""
    schema = struct(
        {
            "a": field(STRING, 'alpha(since: "1.36")=+k8s:maxBytes=1', 'beta(since: "1.37")=+k8s:maxBytes=2',
                       "maxBytes=3"),
            "b": field(STRING, 'alpha(since: "1.36")=+k8s:required', "minLength=1"),
            "c": field(listed(STRING), "listType=atomic", 'beta(since: "1.37")=+k8s:unique=set'),
        }
    )  # fmt: skip

    assert [(error.path, level) for error, level in findings(schema, {"a": "xxxx", "c": ["x", "x"]})] == [
        ("a", Level.STANDARD),
        ("a", Level.ALPHA),
        ("a", Level.BETA),
        ("b", Level.ALPHA),
        ("c[1]", Level.BETA),
    ]


def test_rules_of_a_struct() -> None:
    """Rules of the struct itself come before those of its fields, and may stop them."""
    schema = struct({"a": field(STRING, "required")}, "immutable")

    outer = Schema(Kind.OBJECT, "test.Outer", fields={"outer": field(schema)})

    assert texts(outer, {"outer": {}}, {"outer": {"a": "x"}}) == [
        "outer: Invalid value: null: field is immutable"
    ]


def test_older_releases() -> None:
    """Lengths were counted in bytes until 1.35; until 1.34 a change was forbidden and a key could repeat."""
    schema = struct(
        {
            "a": field(STRING, "maxLength=1"),
            "b": field(STRING, "immutable"),
            "c": field(listed(ITEM), "listType=map", "listMapKey=name"),
        }
    )
    old = Settings(lengths_in_bytes=True, immutable_is_forbidden=True, keys_may_repeat=True)
    found = findings(schema, {"a": "ää", "b": "x", "c": [{}, {}]}, {"b": "y"}, settings=old)

    assert [str(error) for error, _ in found] == [
        "a: Too long: may not be more than 1 byte",
        "b: Forbidden: field is immutable",
    ]


def test_added_rules() -> None:
    """A rule that the base release has at no level, and all rules of fields that it lacks, are added."""
    inner = Schema(Kind.OBJECT, "test.Item", fields={"size": Field(NUMBER, rules=[["maximum", 9]])})
    base = struct({"a": field(STRING, "alpha=+k8s:required"), "i": field(inner)})
    mine = struct(
        {"a": field(STRING, "required", "maxBytes=1"), "n": field(STRING, "alpha=+k8s:maxBytes=1"),
         "i": field(inner), "j": field(inner)}
    )  # fmt: skip
    settings = Settings(base={"test.Thing": base, "test.Item": inner})

    def levels(value: Any) -> list[tuple[str, Level]]:
        return [(error.path, level) for error, level in findings(mine, value, settings=settings)]

    assert levels({"n": "xx", "i": {"size": 10}, "j": {"size": 10}}) == [
        ("a", Level.STANDARD), ("n", Level.ADDED), ("i.size", Level.STANDARD), ("j.size", Level.ADDED),
    ]  # fmt: skip
    assert levels({"a": "xx"}) == [("a", Level.ADDED)]


def test_added_structs() -> None:
    """Rules of a struct itself are added as well, be they of the struct or gathered from its fields."""
    fields = {"a": field(STRING, "unionMember"), "b": field(STRING, "unionMember")}
    new = Schema(Kind.OBJECT, "test.New", fields=fields)
    old = struct({"a": field(STRING, "unionMember"), "b": field(STRING)})
    retagged = struct(fields, "immutable")

    def levels(schema: Schema, value: Any, before: Any = None) -> list[Level]:
        found = findings(schema, value, before, settings=Settings(base={"test.Thing": old}))
        return [level for _, level in found]

    assert levels(new, {}) == [Level.ADDED]
    assert levels(retagged, {}) == [Level.ADDED]
    assert levels(retagged, {"a": "x"}, {"a": "y"}) == [Level.ADDED]
    assert levels(old, {}) == [Level.STANDARD]


def test_recursive_types() -> None:
    """A type may contain itself."""
    fields: dict[str, Field] = {"name": field(STRING, "required")}
    schema = struct(fields)
    fields["inner"] = field(schema, "optional", pointer=True)

    assert texts(schema, {"name": "x", "inner": {"inner": {"name": "x"}}}) == ["inner.name: Required value"]


def test_types_without_rules() -> None:
    """Nothing is compiled for a type without rules."""
    assert not Compiler(Settings()).has_rules(Schema(Kind.OBJECT, "test.Bare", fields={"a": Field(STRING)}))
    assert Compiler(Settings()).has_rules(struct({"list": Field(listed(ITEM))}))


def test_tags_that_do_not_fit() -> None:
    """A tag for another type of value than its field's is passed over."""
    tags = ["maxLength=1", "maxItems=1", "eachVal=+k8s:optional", "eachKey=+k8s:optional", "format=k8s-uuid"]
    schema = struct({"a": field(NUMBER, *tags), "b": field(STRING, "maximum=1", "subfield(x)=+k8s:required")})

    assert texts(schema, {"a": 12, "b": "xx"}) == []


TAGS = [
    "customUnique", "dependentForbidden(b)", "dependentRequired(b)", "discriminator", "enum", "forbidden",
    "format=k8s-uuid", "immutable", "listMapKey=name", "listType=map", "listType=set", "maxBytes=1",
    "maxItems=1", "maxLength=1", "maximum=1", "minItems=1", "minLength=1", "minimum=1", "monotonic", "neq=1",
    "opaqueType", "optional", "required", "unionDiscriminator", "unionMember", "unique=map", "unique=set",
    "update=NoAddItem", "update=NoModify", "update=NoRemoveItem", "update=NoSet", "update=NoUnset",
    "zeroOrOneOfMember", 'member("x")=+k8s:required',
]  # fmt: skip
NESTING = ["", "eachVal=+k8s:", "eachKey=+k8s:", 'item(name: "x")=+k8s:', "subfield(name)=+k8s:",
           "ifEnabled(G)=+k8s:", "alpha=+k8s:"]  # fmt: skip
KINDS: list[tuple[Schema, list[Any]]] = [
    (STRING, [None, "", "xx"]),
    (NUMBER, [None, 0, 7]),
    (FLAG, [None, True]),
    (ITEM, [None, {}, {"name": "x", "note": "y"}]),
    (listed(ITEM), [None, [], [{"name": "x"}, {"name": "x"}]]),
    (listed(STRING), [None, [], ["x", "x"]]),
    (mapped(STRING), [None, {}, {"k": "v"}]),
    (mapped(ITEM), [None, {}, {"k": {"name": "x"}}]),
    (Schema(Kind.QUANTITY), [None, "1", "1000m"]),
    (Schema(Kind.INT_OR_STRING), [None, 1, "1%"]),
    (Schema(Kind.ANY), [None, {"a": 1}]),
    (Schema(Kind.STRING, format="date-time"), [None, "2026-01-01T00:00:00Z"]),
]


@pytest.mark.parametrize("nesting", NESTING)
def test_any_tag_on_any_field(nesting: str) -> None:
    """A tag on a field that it is not for, alone or in another tag, breaks no write."""
    bare = field(STRING)
    for tag in TAGS:
        for kind, values in KINDS:
            pointer = kind.kind is Kind.OBJECT
            check = Compiler(NEWEST).struct(
                struct({"a": field(kind, nesting + tag, pointer=pointer), "b": bare})
            )
            for new in values:
                check(Operation(False), "", {"a": new}, None)
                check(Operation(True), "", {"a": new}, {"a": values[-1]})
                check(Operation(True), "", {"a": new}, {"a": None})
