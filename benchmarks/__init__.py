"""Speed, measured side by side; not part of the tests."""
