"""Problems read from files: the eleven of the paper."""
