"""OpenAPI documents, derived from a resource table and its schema trees: v2 (JSON, protobuf) and v3.

Schemas depend on the release, never on gates. The documents are plain JSON; who serves them keeps the bytes.
"""

from kubeskew.apimachinery.openapi.protobuf import PROTOBUF_V2, v2_protobuf
from kubeskew.apimachinery.openapi.v2 import v2
from kubeskew.apimachinery.openapi.v3 import v3, v3_hash, v3_index

__all__ = ["PROTOBUF_V2", "v2", "v2_protobuf", "v3", "v3_hash", "v3_index"]
