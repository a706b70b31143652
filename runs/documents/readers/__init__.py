"""One reader for each kind of file. They run in a child process only (runs.documents.child)."""
