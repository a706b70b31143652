"""Faults from the field, each under its number: what broke in other people's agent servers, tried on this one."""
