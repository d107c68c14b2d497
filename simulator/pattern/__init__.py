"""The work of a job's ranks in a step, as values; no seconds, no network."""
