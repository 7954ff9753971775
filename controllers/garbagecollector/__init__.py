"""The garbage collector: deletes objects whose owners are gone; orphans or waits where a deletion asks for
it."""
