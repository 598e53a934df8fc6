"""Problems read from files: the eleven of the paper, and five whose arms are items."""
