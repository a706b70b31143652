"""The conformance kit: cases of the stream protocol as data, played against any server, over each transport."""
