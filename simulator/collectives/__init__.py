"""Collectives: schedules of messages in plain Python, and the runner that rank actors call."""
