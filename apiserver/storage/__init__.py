"""Event store: a log of immutable events, its projection, and watches as cursors."""
