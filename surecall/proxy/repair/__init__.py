"""Repairs a client's request on the way to the upstream, and the reply on the way back."""
