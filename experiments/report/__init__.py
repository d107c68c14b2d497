"""The report: one self-contained page with the results of a sweep."""

# First: it imports Matplotlib in a safe place.
import faultline.experiments.figures  # noqa: F401
