"""SiMa's ``afe`` as its published pages describe it: names, signatures, files. It compiles nothing.

Each module states the page of its names: *api* is docs/generated of sima-neat/model-compiler
(release 2.1), *guide* is its docs/guides, and *1.4* and other numbers are releases of docs.sima.ai.
*core* is sima-neat/core, the reader of the archives. A call or an argument that no page states is
rejected. It may work in the real SDK, but no page says so.
"""
