"""Projects in C: a build whose results are compared byte by byte."""

from __future__ import annotations

from tests.compat.projects.project import Project

PROJECTS = (
    Project(
        name="lua",
        kind="c",
        does="its build with `make -j2`, then 40 MB that its interpreter and `zstd` write",
        fetch="debian_orig lua5.4",
        version="sed -n 's/^#define LUA_VERSION_RELEASE.*\"\\(.*\\)\"/5.4.\\1/p' src/lua.h",
        run="""
            make -s -j2 linux CFLAGS='-O2 -Wall -std=gnu99 -DLUA_COMPAT_5_3 -DLUA_USE_LINUX' || exit
            ./src/lua -e 'local x = 1
                for i = 1, 4e6 do x = (x * 16807) % 2147483647; io.write(x, "\\n") end' > numbers
            zstd -q -9 -T1 numbers && sort -n numbers | sha256sum""",
        files=("src/*.o", "src/lua", "src/luac", "numbers", "numbers.zst"),
    ),
)
