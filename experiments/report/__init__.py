"""The report: one self-contained page with the results of a sweep."""
