"""what operators and other simulators report of long runs, beside what Faultline makes of it."""
