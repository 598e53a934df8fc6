"""How many files a process may open, and for what."""

import resource

MAX_FILES = 65_536  # that a process asks for
FILES_OF_LOG = 8  # two connections to an SQLite file with its WAL, the shared memory, and the lease
OTHER_FILES = 100  # libraries, sockets, pipes


def raise_file_limit(most: int = MAX_FILES) -> int:
    """Let this process and its children have as many open files as they may, up to some number; return how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most if hard == resource.RLIM_INFINITY else min(hard, most)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return file_limit()


def file_limit() -> int:
    """Return how many files this process may open."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MAX_FILES if soft == resource.RLIM_INFINITY else soft


def most_logs() -> int:
    """Return how many logs may be open at once: for them is half of the files."""
    return max((file_limit() - OTHER_FILES) // 2 // FILES_OF_LOG, 4)


def most_connections() -> int:
    """Return how many connections of clients may be open at once: for them is the other half."""
    return max((file_limit() - OTHER_FILES) // 2, 16)
