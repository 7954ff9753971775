"""Sets the defaults of Secret objects.

Source: pkg/apis/core/v1/defaults.go and conversion.go (Convert_v1_Secret_To_core_Secret), 1.36.
"""

import base64

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    fill,
)


def secret(obj: Object, _: DefaultingContext) -> None:
    """Sets the type, and makes `stringData` what it stands for, as the conversion does that follows."""
    fill(obj, type="Opaque")
    texts = obj.pop("stringData", None)
    if texts:
        data = obj["data"] = dict(obj.get("data") or {})
        data.update({name: base64.b64encode(text.encode()).decode() for name, text in texts.items()})
