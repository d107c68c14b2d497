"""The planner: the best scheme, redundancy and checkpoint interval, with its confidence."""
