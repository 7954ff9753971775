"""The commands of fake containers, beside those of the shell itself: text, files, archives, network."""
