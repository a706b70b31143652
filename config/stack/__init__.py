"""The programs of one checkout: databases, our processes, and the commands behind `make`. Standard library first, no Django."""
