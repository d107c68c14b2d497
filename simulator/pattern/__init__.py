"""What the ranks of a job do in a step, as values; no seconds, no network."""
