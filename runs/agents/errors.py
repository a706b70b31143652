"""What an agent may catch: a step of its own that did not work. Pure.

AgentStepError
  ToolFailed      the tool refused for certain; nothing happened outside
  ModelFailed     the model gave no usable answer
  InputTimeout    nobody answered in time
  ChildFailed     a child run failed, was stopped, or could not begin

Each is as durable as a result: when the run is advanced again, the same error comes from the same step. One that
an agent does not catch ends the run as failed with the error's `code` and message. An effect whose outcome is
unknown is none of these: it parks the run, and the agent never sees it. Neither does it see a cancel as an error of
this tree; that comes as a BaseException and must not be swallowed.
"""


class AgentStepError(Exception):
    """Root of what a step may raise. code: a stable word for programs; message: for people."""

    code = "step_failed"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ToolFailed(AgentStepError):
    """A tool refused for certain. code: the tool's own word; retryable: the same call may succeed later."""

    def __init__(self, tool: str, code: str, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.tool = tool
        self.code = code
        self.retryable = retryable


class ModelFailed(AgentStepError):
    """A model call failed. code: as in tools.models.protocol.ModelError, or "bad_answer" (does not fit the schema)."""

    def __init__(self, code: str, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.retryable = retryable


class InputTimeout(AgentStepError):
    """A question expired without an answer. question_id: "q_…"."""

    code = "input_timeout"

    def __init__(self, question_id: str, prompt: str) -> None:
        super().__init__(f"Nobody answered in time: {prompt[:200]}")
        self.question_id = question_id
        self.prompt = prompt


class ChildFailed(AgentStepError):
    """A child run brought no result.

    code: the child's own error code, "child_cancelled", "too_many_children", or why it could not begin; child_id:
    "run_…", None when it did not begin.
    """

    def __init__(self, agent: str, code: str, message: str, child_id: str | None = None) -> None:
        super().__init__(message)
        self.agent = agent
        self.code = code
        self.child_id = child_id
