"""Projects in Go, Rust and Java."""

from __future__ import annotations

from tests.compat.projects.project import Project

_GO = "sort strings bufio encoding/json text/template context sync time io os/exec net/http/httptest"
_JARS = (
    "junit-jupiter-api,junit-jupiter-params,junit-jupiter-engine,junit-platform-commons,junit-platform-engine,"
    "junit-platform-launcher,junit-platform-console,junit-platform-reporting,opentest4j,apiguardian-api,hamcrest,"
    "picocli,jsr305,univocity-parsers,easymock,commons-io,commons-text,opentest4j-reporting-events,opentest4j-reporting-schema"
)
_PATH = f"CP=classes:src/test/resources:$(echo /usr/share/java/{{{_JARS}}}.jar | tr ' ' :)"

PROJECTS = (
    Project(
        name="go",
        kind="go",
        does=f"of its standard library: {_GO.replace(' ', ', ')}",
        build=f"go test -vet=off -count=1 -short -run NONE {_GO} >/dev/null",
        version="go env GOVERSION",
        run=f"go test -json -vet=off -count=1 -short {_GO}",
        reads="go",
        stack="go",
    ),
    Project(
        name="crossbeam",
        kind="rust",
        does="of crossbeam-channel's tests: threads, channels, select",
        fetch="""
            packages librust-crossbeam-channel-dev librust-num-cpus-dev librust-signal-hook-dev librust-rand-dev
            cp -a /usr/share/cargo/registry/crossbeam-channel-*/. .; mkdir .cargo
            printf '[source.crates-io]\\nreplace-with = "debian"\\n[source.debian]\\ndirectory = "%s"\\n' \\
                /usr/share/cargo/registry > .cargo/config.toml""",
        build="cargo test -q --offline --no-run --tests 2>/dev/null",
        version="sed -n 's/^version = \"\\(.*\\)\"/\\1/p' Cargo.toml | head -1",
        run="cargo test --offline --no-fail-fast --test golang --test mpsc --test list --test never --test same_channel",
        reads="cargo",
        stack="rust",
    ),
    Project(
        name="commons-lang",
        kind="java",
        does="javac and JUnit 5: concurrent, event, function, stream, tuple, mutable, math; and the classes",
        fetch="""
            packages junit5 libeasymock-java libjsr305-java libcommons-io-java libcommons-text-java
            debian_orig libcommons-lang3-java
            grep -rlE 'junitpioneer|openjdk.jmh|FastDatePrinterTest' src/test | xargs rm""",
        build=f"{_PATH}; mkdir t classes; javac -nowarn -d classes -encoding UTF-8 $(find src/main -name '*.java') 2>/dev/null; "
        "javac -nowarn -d t -cp $CP -encoding UTF-8 $(find src/test/java -name '*.java') 2>/dev/null; rm -r classes",
        version="sed -n 's/^ *<version>\\(.*\\)<.version>/\\1/p' pom.xml | sed -n 2p",
        run=f"""
            {_PATH}
            javac -nowarn -d classes -encoding UTF-8 $(find src/main -name '*.java') 2>/dev/null || exit
            java -cp t:$CP org.junit.platform.console.ConsoleLauncher execute --reports-dir report --details none \\
                --disable-banner $(printf -- '--select-package org.apache.commons.lang3.%s ' concurrent event \\
                function stream tuple mutable math)""",
        reads="junit",
        result="report/TEST-junit-jupiter.xml",
        files=("classes",),
        stack="java",
    ),
)
