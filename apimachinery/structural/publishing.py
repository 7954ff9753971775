from apimachinery.errors import Object


def openapi(props: Object, *, v2: bool) -> Object:
    """What OpenAPI publishes of a JSONSchemaProps (of the root: without apiVersion, kind, metadata)."""
    return dict(props)
