"""What a run reports: its progress, its seconds by cause, its events."""
