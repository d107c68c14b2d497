"""The states that a restart can go back to, and where they are kept."""
