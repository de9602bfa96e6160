"""The demo: a real training job that meets a real fault, and stepward's account of it beside the truth.

``trainer`` is an ordinary user's script (two ranks, a character-level model, checkpoints, the SDK); ``faults`` is what
befalls it; ``story`` starts a server and a run, watches, and compares what the server knows with what was done. Nothing
here is imported by any other package but the CLI's command.
"""
