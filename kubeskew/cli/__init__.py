"""The `kubeskew` command: one module per group of commands, imported when it is called."""
