"""Who makes the machines of a cluster: one package a provider behind one protocol."""
