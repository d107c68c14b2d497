"""Logs that people have of their failures, read into one form."""
