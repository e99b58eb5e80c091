"""The proxy: the same healing for agents that are already written, by changing one address."""
