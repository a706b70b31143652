"""The words of the built-in agents' forms, named here so that they get into the catalogue of translations.

An agent's own module knows no Django; its titles and descriptions are looked up by the text itself. Agents of other
people bring English words, and keep them.
"""

from django.utils.translation import gettext_noop as _

WORDS = (
    _("One answer of the model. It stops when you leave the page."),
    _("Searches your documents, summarises each, and writes a report with citations."),
    _("Chooses tools until it can answer. It asks you before it changes anything."),
    _("Writes one line, creates one invoice, keeps a copy of it."),
    _("An interactive shell. It ends some time after you have left it."),
    _("Prompt"), _("What do you want to know?"),
    _("System"), _("How the model should answer."),
    _("Question"), _("What do you want to find out?"),
    _("Documents"),
    _("What should be done?"),
    _("Tools"), _("The tools that it may use."),
    _("Auto Approve"), _("Let it change things without asking you first."),
    _("Max Turns"), _("How often it may choose tools."),
    _("Customer"), _("Who gets the invoice?"),
    _("Cents"), _("The amount in the smallest unit: 1250 is 12.50."),
    _("Currency"), _("Three letters, such as EUR."),
    _("Note"), _("What it is for."),
    _("Approve"), _("Go on with exactly what is shown?"), _("For the agent, if it is a no."),
)  # fmt: skip
