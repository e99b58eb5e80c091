"""What is healed for a client: its request on the way up, the answer on the way down."""
