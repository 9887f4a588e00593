"""comparo inside other tools: a scorer for inspect_ai, a fixture for pytest.

Each file is for one tool, and is imported by those who use that tool; nothing else of comparo imports from here.
"""
