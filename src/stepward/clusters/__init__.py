"""Slurm clusters from a specification: read it, make it, change it, keep it alive, end it.

``spec`` and ``reading`` need no server; ``fleet.Fleet`` runs the operations; ``providers`` make the machines.
"""
