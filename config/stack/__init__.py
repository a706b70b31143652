"""The programs of one checkout: databases, our processes, and the commands behind `make`. No Django."""
