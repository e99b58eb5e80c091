"""OpenAI's wire format, clean and bent."""
