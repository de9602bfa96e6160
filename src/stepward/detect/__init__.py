"""Detectors: from series of numbers to what is wrong with them.

Pure functions: no clock, no input or output, so that a server, the command line and a replay give the same answer. Each
docstring names its signal, method and threshold; thresholds are those of the project's measured table of detectors.
Only what the offline diagnosis needs is here; nothing needs numpy.
"""
