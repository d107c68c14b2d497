"""Many runs that survive: a grid, its runs, where they are played, and what they left behind."""
