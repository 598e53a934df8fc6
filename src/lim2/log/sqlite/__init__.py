"""A log in an SQLite file, shared by the threads and processes of one machine."""
