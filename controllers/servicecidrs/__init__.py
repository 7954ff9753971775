"""Service ranges: their condition, and their stay while services have their addresses."""
