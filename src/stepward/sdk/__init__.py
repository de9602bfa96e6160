"""The SDK: what runs inside the training process.

``run`` is what a training script holds; ``steps`` times it, ``recorder`` and ``values`` turn it into rows, ``pulse`` is
the one background thread, ``exits`` says how the process ended. Nothing here blocks the loop, and nothing raises after
``init``.
"""
