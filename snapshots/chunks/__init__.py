"""Process images, compressed; each page of memory is stored once for all snapshots of a home.

Memory hardly changes between two snapshots of a session, and changes come in pages, wherever they are. So
files are cut into pages of 4 KiB, each named by its digest, and stored in packs: files that are written once,
each with a directory of its pages. A recipe says where the pages of a snapshot's files are. The index only
helps to find stored pages; packs and recipes are complete without it.
"""
