"""How the state of a job is kept against failures, beneath any scheme: a module a protection."""
