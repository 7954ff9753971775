"""A kind that tests of field ownership write: one field for each shape."""

from kubeskew.apimachinery.schema import Field, Kind, Schema

STRING, INTEGER = Schema(Kind.STRING), Schema(Kind.INTEGER)
ITEM = Schema(
    Kind.OBJECT,
    fields={
        "name": Field(STRING),
        "value": Field(STRING),
        "protocol": Field(STRING, default="TCP", has_default=True),
    },
)
SPEC = Schema(
    Kind.OBJECT,
    fields={
        "size": Field(INTEGER),
        "on": Field(Schema(Kind.BOOLEAN)),
        "text": Field(STRING),
        "tags": Field(Schema(Kind.LIST, items=STRING, list_type="set")),
        "items": Field(Schema(Kind.LIST, items=ITEM, list_type="map", list_keys=("name",))),
        "ports": Field(Schema(Kind.LIST, items=ITEM, list_type="map", list_keys=("name", "protocol"))),
        "steps": Field(Schema(Kind.LIST, items=STRING)),
        "labels": Field(Schema(Kind.MAP, items=STRING)),
        "atom": Field(Schema(Kind.MAP, items=STRING, map_type="atomic")),
        "free": Field(Schema(Kind.ANY, preserve_unknown=True)),
        "amount": Field(Schema(Kind.QUANTITY)),
    },
)
MAP_OF_TEXT = Schema(Kind.MAP, items=STRING)
METADATA = Schema(
    Kind.OBJECT,
    fields={
        "name": Field(STRING),
        "uid": Field(STRING),
        "labels": Field(MAP_OF_TEXT),
        "annotations": Field(MAP_OF_TEXT),
    },
)
WIDGET = Schema(
    Kind.OBJECT,
    fields={
        "apiVersion": Field(STRING),
        "kind": Field(STRING),
        "metadata": Field(METADATA),
        "spec": Field(SPEC),
    },
)
