"""What the judges that go through a provider's own library have in common (anthropic/, gemini/)."""
