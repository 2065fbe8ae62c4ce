"""Fuzzing: every reader, every verb and every file of ours is fed damaged and hostile input.

It lives beside the tests, not in the package or in a folder of tools, because its sound files come from the writers of
the tests and a short round of it is a test. `make fuzz` runs the whole round.
"""
