"""The table of known bugs, as `kubeskew bugs` and docs/known-bugs.md show it."""
