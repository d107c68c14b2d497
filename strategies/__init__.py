"""What a fault-tolerance scheme decides: a module a scheme, its closed forms beside it.

Nothing in here knows a clock, a network, a file or a random number.
"""
