"""Points, steps and raw parts of frames: one protocol, one package an engine."""
