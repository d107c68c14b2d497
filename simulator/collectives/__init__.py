"""Collectives: schedules of messages in plain Python, and the player that rank actors call."""
