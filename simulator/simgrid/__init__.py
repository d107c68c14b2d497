"""The SimGrid engine: ranks are actors on the hosts of a platform, failures turn hosts off.

SimGrid allows one engine per process, so `processes` starts a process for each simulation.
"""
