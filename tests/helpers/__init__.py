"""What the tests share: agents of every kind, worlds to play in, injected faults, and a guard of purity."""
