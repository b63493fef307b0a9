"""The words of the program: frozen dataclasses, standard library only. See docs/structure.md."""
