"""The voting page: people are the judges, in a browser.

links ─► app ─► booth ─► dealing ─► ballots ─► run folder ─► standing
who may    pages,   one vote     which pair    what was         the same as     what the
open it    safety   at a time    for whom      shown, answered  `comparo rank`'s organiser sees
"""
