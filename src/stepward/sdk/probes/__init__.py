"""Probes: clocks and counters that only a loaded framework can read. None of them loads a framework."""
