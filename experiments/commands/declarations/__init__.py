"""Declarations of the commands, apart from their execution, so that ``--help`` is quick.

Each module declares the commands of the module with the same name in the parent package.
"""
