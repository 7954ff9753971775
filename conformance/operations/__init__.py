"""Operations of a `try` list, by what they act on."""
