"""The volumes of pods as directories, and what containers get of them: for runtimes that run processes."""
