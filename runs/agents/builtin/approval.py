"""What a person is asked before an effect: one form for all agents."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Approval(BaseModel):
    """Yes or no, and why."""

    model_config = ConfigDict(extra="forbid")
    approve: bool = Field(description="Go on with exactly what is shown?")
    note: Annotated[str, Field(max_length=1000)] = Field(default="", description="For the agent, if it is a no.")
