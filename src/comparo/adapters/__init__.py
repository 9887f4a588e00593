"""comparo inside other tools: a scorer for inspect_ai, a fixture for pytest.

Each file is for one tool, and only users of that tool import it; nothing else in comparo imports from here.
"""
