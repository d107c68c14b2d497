"""Many runs: points, running them, the store, and local or remote workers."""
