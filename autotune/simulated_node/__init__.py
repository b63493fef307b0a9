"""A program that behaves like an SGLang 0.5.9 server on an imaginary GPU node. See docs/simulated_node.md.

Nothing here is imported by the server's clients: the node is launched as a process, exactly as SGLang is. The one
exception is `truth`, from which tests learn what a long perfect measurement would show.
"""
