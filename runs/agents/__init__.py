"""What authors of agents import. Knows no Django.

from runs.agents import RunContext, agent
"""
