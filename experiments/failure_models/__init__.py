"""Failure models of a scenario: shipped mixes of causes, a user's own, and traces."""
