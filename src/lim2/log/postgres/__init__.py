"""A log in PostgreSQL, shared by the threads, processes and machines that reach the database.

An address is what libpq takes, and behind ``#`` the name of the log within the database:
``postgresql://user@host/database#shop``. Without a name it is ``default``. Many logs share the tables of one database;
each has a number, by which its rows are known.
"""
