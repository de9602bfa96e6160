"""The vocabulary: words, states, identities, frames (the wire) and resources (the API's JSON).

Everything may import this package; it imports nothing of ours but ``errors``. It does no I/O and reads no clock.
"""
