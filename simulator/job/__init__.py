"""A training job as values: its work, its rules, and the phases that it yields."""
