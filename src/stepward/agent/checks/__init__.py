"""Health checks of a node: cheap, passive, each with a severity and a deadline. What is bad when: docs/agent.md."""
