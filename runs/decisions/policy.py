"""What a run may still do as a matter of policy: the rights of its person, and the tokens of its tree.

Asked in the guard of part dispatch and spawn, beside the row's own columns: rights and sums of tokens are no part of
what a stop and a dispatch race for, so it does no harm that they are read as they were a moment ago.
"""

from runs.decisions.core import Decision, Query, Row

# Who may no longer run things here: out of the tenant, without the role, or deactivated. {run}: the run's row.
HAS_RIGHTS = """exists (
  select 1 from auth_user person join runs_membership member on member.user_id = person.id
  where person.id = runs_run.created_by_id and person.is_active and member.tenant_id = runs_run.tenant_id
    and member.role in ('admin', 'operator', 'runner'))"""
# Tokens only grow, so that a budget which was seen as spent stays spent.
IS_SPENT = """exists (
  select 1 from runs_run top where top.id = coalesce(runs_run.root_id, runs_run.id) and top.budget_tokens <= (
    select sum(part.input_tokens + part.output_tokens) from runs_run part
    where part.id = top.id or part.root_id = top.id))"""
MAY_GO_ON = f"{HAS_RIGHTS} and not {IS_SPENT}"
BUDGET_SPENT = "The tokens that this run and its children may spend are spent."
RIGHTS_LOST = "The person who started this run may no longer run things here."
STANDING = f"select {HAS_RIGHTS} as has_rights, {IS_SPENT} as is_spent from runs_run where id = %(run)s"


def why_not(run: Row) -> Decision[str | None]:
    """Say which part of the policy a run does not meet: rights | budget; None when it meets all."""
    rows = yield Query(STANDING, {"run": run["id"]})
    if not rows[0]["has_rights"]:
        return "rights"
    return "budget" if rows[0]["is_spent"] else None
