"""The planner: which scheme, redundancy and checkpoint interval to take, and how sure that is."""
