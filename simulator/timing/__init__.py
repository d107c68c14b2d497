"""How long things take: what SimGrid measures once, and the cache of it."""
