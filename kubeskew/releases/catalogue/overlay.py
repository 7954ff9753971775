"""Names of the catalogue, and facts that no input has (from memory of Go)."""

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
RAW = "io.k8s.apimachinery.pkg.runtime.RawExtension"
EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
REGISTRATION = "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1."


# Gates whose fields are lists that are looked at before they are stored: an empty one is not an absent one.
EMPTY_COUNTS = frozenset({"DRAListTypeAttributes"})

# Scalars behind a Go pointer, of a type whose source is not among the inputs (1.30, namedresources.go).
NAMED_RESOURCES_POINTERS = frozenset(
    f"io.k8s.api.resource.v1alpha2.NamedResourcesAttribute.{field}"
    for field in ("bool", "int", "string", "version")
)

# Fields that came after 1.26, with their first release: no OpenAPI of 1.26 and 1.27 is among the inputs.
LATER = {
    f"{EXTENSIONS}ValidationRule.messageExpression": 27,
    f"{EXTENSIONS}ValidationRule.fieldPath": 28,
    f"{EXTENSIONS}ValidationRule.reason": 28,
}
