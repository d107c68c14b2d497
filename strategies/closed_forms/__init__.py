"""The schemes' closed forms: failures survived, work of a step, time to a wipe-out, time to train.

Everything in here is a function of numbers and of survival functions that the caller passes;
nothing draws a random number. Monte Carlo and the simulator check it.
"""
