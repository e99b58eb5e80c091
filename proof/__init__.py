"""The claims that surecall makes about itself, each with the code that tries to break it."""
