"""Diagnosis: what ended or hurts a run, in which layer, on which rank and node, and the lines that prove it.

``engine.diagnose`` is the one way in: inputs become clues (readers, signatures), clues become causes (cascade, ranking),
causes become the document of ``stepward.diagnosis/1``. Imports the vocabulary and ``detect`` alone; reads files, never
the network, never the clock. It raises for no input: what cannot be read is named in the document.
"""
