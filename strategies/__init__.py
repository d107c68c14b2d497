"""The decisions of fault-tolerance schemes: one module per scheme, its closed forms beside it.

Schemes use no clock, network, file or random number.
"""
