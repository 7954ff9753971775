"""The in-tree plugins, one file each; `registry` has the list."""
