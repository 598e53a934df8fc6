"""Many bandits on a Ray cluster: Ray Serve replicas that answer, and actors that learn, over one PostgreSQL."""
