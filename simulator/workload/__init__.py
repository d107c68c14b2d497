"""Computation, memory and messages of a parallel job: closed forms of a transformer on a layout."""
