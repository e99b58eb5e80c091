"""OpenAI's wire format, valid and malformed."""
