"""The reader's side of the stream protocol, without I/O: shared by the command line and by streaming.client."""
