"""SiMa's ``afe`` as its published pages describe it: names, signatures, files. It compiles nothing.

Each module says which page its names are of: *api* is docs/generated of sima-neat/model-compiler
(release 2.1), *guide* its docs/guides, *1.4* and the like are releases of docs.sima.ai, *core* is
sima-neat/core, the reader of the archives. What no page states is refused: a call or an argument
that is not here may work in the real SDK, but nobody has said so.
"""
