"""What a node can tell about itself: host, cgroup, processes and devices, as readings.

Used by ``stepward run`` and, without it, by the SDK's background thread. Everything is read from ``/proc``, ``/sys`` and
NVML at the moment of the sample; nothing is installed, nothing is kept but the last counters. What cannot be read is
missing from the sample: never 0, never the last value again.
"""
