"""The SimGrid engine: ranks are actors on the hosts of a platform, failures turn hosts off.

SimGrid allows one engine a process, so `process.py` runs every run in a process of its own;
nothing outside this package imports simgrid, but for the runner of collectives, which runs in it.
"""
