"""OpenAPI documents of a resource table and its schema trees: v2 and v3, as JSON and protobuf.

Schemas depend on the release and on the gate for enums, on no other gate. The documents are plain JSON; their
server keeps the bytes.
"""

from kubeskew.apiserver.openapi.protobuf import v2_protobuf, v3_protobuf
from kubeskew.apiserver.openapi.v2 import v2
from kubeskew.apiserver.openapi.v3 import v3, v3_address, v3_hash, v3_index

__all__ = ["v2", "v2_protobuf", "v3", "v3_address", "v3_hash", "v3_index", "v3_protobuf"]
