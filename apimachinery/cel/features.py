"""The features of CEL that differ between releases."""

from kubeskew.apimachinery.features import FeatureTable, by_release, since


class LanguageFeatures(FeatureTable):
    """The syntax of CEL, and the checks and errors of its compiler."""

    optionals: bool = since(28)  # optional types: `a.?b`, `optional.of(a)`
    compares_types: bool = since(28)  # int, uint and double compare with one another
    validated: bool = since(29)  # literals of durations, timestamps, patterns and formats when compiled
    searches_beyond: bool = since(32)  # indexOf and lastIndexOf take offsets beyond a text's end
    optional_lists: bool = since(33)  # first, last and unwrap, whatever expressions may use otherwise
    early_formats: bool = by_release({0: False, 31: True, 32: False})  # formats count as those of 1.30
    spaced_powers: bool = by_release({0: True, 33: False})  # `%e` writes blanks in powers of ten
    keywords: bool = since(31)  # fields named like reserved words can be selected without escaping
    shows_result_type: bool = since(31)  # errors of a wrong result type: "but got int"
