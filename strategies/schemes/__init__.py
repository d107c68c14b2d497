"""The fault-tolerance schemes: a file or a folder each."""
