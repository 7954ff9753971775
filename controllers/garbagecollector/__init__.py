"""The garbage collector: deletes what nobody owns any more, orphans or waits where a deletion asks for it."""
