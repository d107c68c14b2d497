"""The report: one self-contained page that tells what a sweep found."""

# First: it imports Matplotlib in a safe place.
import faultline.experiments.figures  # noqa: F401
