"""The report: one self-contained page that tells what a sweep found."""
