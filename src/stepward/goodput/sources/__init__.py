"""What others write down about a run, as events of the ledger: stepward's own records, logs of trainers, foreign ledgers.

Pure conversions: they read no clock, no file and no store. What a source cannot know is assumed, and each module says what.
"""
