"""What may be shown of a reply that is still arriving."""
