"""What the agents played when the kept results were made."""
