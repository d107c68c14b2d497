"""The tables of a scenario: every field with its unit, its default and its source."""
