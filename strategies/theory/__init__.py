"""Closed forms of schemes: failures survived, work per step, time to a wipe-out, time to train.

All forms are functions of numbers and survival functions, without random numbers. Monte Carlo and
the simulator validate them.
"""
