"""Observation: what was committed becomes signals, signals become events, events get their diagnosis.

Off the path of an acknowledgement: whoever writes never waits for what is thought about it.
"""
