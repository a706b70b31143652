"""The agents that come with Outlive, one in each module; runs.agents.registry.load_agents imports them."""
