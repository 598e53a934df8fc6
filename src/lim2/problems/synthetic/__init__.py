"""Problems that need no files."""
