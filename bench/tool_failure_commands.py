"""Commands that fail, of test runners, compilers and package managers. Data of `bench.tool_failures`.

A line is `KIND | COMMAND`; `unknown` is `unknown: TEXT`, with a text that the quoted line has. The rules were
written before any was run, and then corrected by what `TOOLS` showed; `FRESH` was run after that, and the rules
have not been changed because of it.
"""

from __future__ import annotations

SETUP = r"""
mkdir -p js esm vitest none ts tsfile lint go/sum go/bad go/pan rust/src rust/tests jv sh py bad npm
cd js; ln -sfn "$NODE_MODULES" node_modules; printf '{"name":"a","version":"1.0.0","scripts":{"test":"jest","start":"node crash.js"}}' > package.json
printf 'test("adds", () => { expect(1 + 1).toBe(3); });\ntest("ok", () => {});\n' > sum.test.js
printf 'const x = require("./nothere");\ntest("a", () => {});\n' > import.test.js
printf 'test("a", () => { ;;; (\n' > syntax.test.js
printf 'test("slow", (done) => {}, 100);\n' > slow.test.js
printf 'describe("db", () => { beforeAll(() => { throw new Error("no database"); }); test("reads", () => {}); });\n' > before.test.js
printf 'test("snap", () => { expect(2).toMatchInlineSnapshot(`1`); });\n' > snap.test.js
printf 'const a = require("assert");\ndescribe("sum", () => { it("adds", () => a.strictEqual(1, 2)); it("is fine", () => {}); });\n' > mocha.js
printf 'describe("s", () => { before(() => { throw new TypeError("no connection"); }); it("x", () => {}); });\n' > mochahook.js
printf 'require("nowhere"); it("x", () => {});\n' > mochamissing.js
printf 'it("never", (done) => {});\n' > mochaslow.js
printf 'const test = require("node:test"); const a = require("assert");\ntest("adds", () => a.equal(1, 2));\ntest("fine", () => {});\n' > node1.js
printf 'const { describe, it } = require("node:test");\ndescribe("outer", () => { it("inner", () => { throw new Error("boom"); }); });\n' > node2.js
printf 'require("nowhere");\n' > node3.js
printf 'function f() { return JSON.parse("{"); }\nf();\n' > crash.js
printf 'Promise.reject(new Error("late"));\n' > reject.js
printf 'process.on("exit", () => console.log("bye")); undefinedName();\n' > ref.js
printf 'import fs from "fs";\nfs.x;\n' > cjs.js
printf 'console.error("config: the key is wrong"); console.log("done in 3 ms"); process.exit(3);\n' > exit3.js
printf 'throw { code: 7 };\n' > throwobject.js
printf 'require("assert")(false, "must be true");\n' > assertion.js
printf 'const test = require("ava");\ntest("adds", t => { t.is(1, 2); });\n' > ava.test.cjs
cd ..; cd esm; printf '{"name":"e","type":"module"}' > package.json
printf 'import x from "nowhere";\n' > package.mjs; printf 'import x from "./nothere.mjs";\n' > relative.mjs
printf 'export const a = 1;\n' > a.mjs; printf 'import { b } from "./a.mjs";\nb;\n' > named.mjs; printf 'const fs = require("fs");\n' > require.js
printf 'import x from "./a";\n' > noext.mjs; printf 'await Promise.reject(new RangeError("too far"));\n' > top.mjs; printf 'const = 3;\n' > syntax.mjs
cd ..; cd vitest; ln -sfn "$NODE_MODULES" node_modules; printf '{"name":"v","type":"module"}' > package.json
printf 'import { test, expect } from "vitest";\ntest("adds", () => { expect(1 + 1).toBe(3); });\n' > sum.test.js
printf 'import { describe, it, expect } from "vitest";\ndescribe("outer", () => { it("inner", () => { expect({ a: 1 }).toEqual({ a: 2 }); }); });\n' > nested.test.js
printf 'import x from "./nothere.js";\nimport { test } from "vitest";\ntest("a", () => x);\n' > import.test.js
printf 'import { test } from "vitest";\ntest("a", () => {\n' > syntax.test.js; printf 'const a = 1;\n' > empty.test.js
printf 'import { test } from "vitest";\ntest("throws", () => { throw new Error("boom"); });\n' > throws.test.js
cd ..; cd ts; printf '{"compilerOptions":{"strict":true,"noEmit":true,"target":"es2020","module":"commonjs","types":[]},"files":["a.ts"]}' > tsconfig.json
printf 'const x: number = "a";\nexport default x;\n' > a.ts; cp a.ts ../tsfile/; cd ../tsfile; printf 'import y from "nowhere";\ny;\n' > missing.ts; printf 'const = 1;\n' > syntax.ts
printf 'export function f(a: string) { return a.nope; }\nf(1);\n' > prop.ts; cd ../ts; printf '{ "compilerOptions": { "strict": maybe } }' > broken.json; mkdir -p empty
cd ..; cd lint; ln -sfn "$NODE_MODULES" node_modules; printf '{"name":"l"}' > package.json
printf 'module.exports = [{ rules: { "no-unused-vars": "error", "no-undef": "error", semi: "error" } }];\n' > eslint.config.js
printf 'const a = 1\nnope()\n' > a.js; printf 'const = 1;\n' > syntax.js; printf 'const   a =  {b:1}\n' > format.js; printf '{"a": }' > bad.json; mkdir -p ../noeslint; printf 'x\n' > ../noeslint/a.js
cd ..; cd go; printf 'module example.com/a\n\ngo 1.19\n' > go.mod
printf 'package sum\n\nfunc Sum(a, b int) int { return a - b }\n' > sum/sum.go
printf 'package sum\n\nimport "testing"\n\nfunc TestSum(t *testing.T) {\n\tif Sum(1, 2) != 3 {\n\t\tt.Errorf("got %%d", Sum(1, 2))\n\t}\n}\n\nfunc TestTable(t *testing.T) {\n\tt.Run("zero", func(t *testing.T) { t.Fatal("no") })\n}\n' > sum/sum_test.go
printf 'package bad\n\nfunc F() int { return "a" }\n' > bad/bad.go; printf 'package bad\n\nimport "testing"\n\nfunc TestF(t *testing.T) { F() }\n' > bad/bad_test.go
printf 'package pan\n\nimport ("testing"; "time")\n\nfunc TestPanic(t *testing.T) { var m map[string]int; m["a"] = 1 }\nfunc TestSlow(t *testing.T) { time.Sleep(time.Minute) }\n' > pan/pan_test.go
printf 'package main\n\nfunc main() { var p []int; _ = p[3] }\n' > index.go; printf 'package main\n\nfunc main() { ch := make(chan int); <-ch }\n' > deadlock.go
printf 'package main\n\nimport "fmt"\n\nfunc main() { fmt.Printf("%%d", "a") }\n' > vet.go; printf 'package main\n\nimport "github.com/no/where"\n\nfunc main() { where.F() }\n' > missing.go
printf 'package main\n\nimport "fmt"\n\nfunc main() { x := 1 }\n' > unused.go; printf 'package main\n\nfunc main() { if }\n' > syntax.go; printf 'package main\n\nimport "os"\n\nfunc main() { panic(os.ErrNotExist) }\n' > panicerr.go
printf 'package main\n\nimport ("log"; "os")\n\nfunc main() { _, err := os.Open("/no/such"); log.Fatal(err) }\n' > fatal.go; printf 'package main\n\nimport ("errors"; "fmt"; "os")\n\nfunc main() { fmt.Fprintln(os.Stderr, "error:", errors.New("quota is used up")); fmt.Println("bye"); os.Exit(3) }\n' > exit.go
printf 'package main\n\nimport "nowhere/at/all"\n\nfunc main() { all.F() }\n' > std.go; mkdir -p badmod && printf 'modle x\n' > badmod/go.mod; mkdir -p nogo
printf 'package main\n\nfunc f() { f() }\nfunc main() { f() }\n' > stack.go
cd ..; cd rust; printf '[package]\nname = "a"\nversion = "0.1.0"\nedition = "2021"\n' > Cargo.toml
printf '/// Adds.\n/// ```\n/// assert_eq!(a::add(1, 1), 2);\n/// ```\npub fn add(a: i32, b: i32) -> i32 { a - b }\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() { assert_eq!(super::add(1, 2), 3); }\n    #[test]\n    fn fine() {}\n    #[test]\n    #[should_panic]\n    fn panics() {}\n}\n' > src/lib.rs
printf '#[test]\nfn integration() { panic!("no server"); }\n' > tests/it.rs
cd ..; mkdir -p rs; cd rs; printf 'fn main() { let v: Vec<i32> = vec![]; println!("{}", v[3]); }\n' > index.rs; printf 'fn main() { let x: Option<i32> = None; x.unwrap(); }\n' > unwrap.rs
printf 'fn main() { assert_eq!(1 + 1, 3, "sums"); }\n' > assert.rs; printf 'fn main() { let x: i32 = "a"; }\n' > types.rs; printf 'fn main() { println!("a" }\n' > syntax.rs
printf 'use nowhere::thing;\nfn main() { thing(); }\n' > missing.rs; printf 'fn main() { let s = String::new(); let t = s; println!("{}", s); }\n' > borrow.rs
printf '#[derive(Debug)]\nstruct NotReady(i32);\nfn main() -> Result<(), NotReady> { Err(NotReady(3)) }\n' > result.rs; printf 'fn main() { std::fs::read("/no/such/file").unwrap(); }\n' > file.rs
printf 'fn main() { eprintln!("cannot start: the license is invalid"); std::process::exit(4); }\n' > exit.rs; printf 'extern "C" { fn nowhere(); }\nfn main() { unsafe { nowhere() } }\n' > link.rs
printf 'fn f(n: u64) -> u64 { if n == 0 { 0 } else { 1 + f(n + 1) } }\nfn main() { println!("{}", f(1)); }\n' > stack.rs; printf 'mod nothere;\nfn main() {}\n' > module.rs; printf 'fn main() { let x = std::thread::spawn(|| panic!("worker died")).join(); x.unwrap(); }\n' > thread.rs
for n in dep:'nosuchcrate-of-this-name = "1"' toml:'[[[' ; do mkdir -p "cargo-${n%%:*}/src"; printf 'fn main() {}\n' > "cargo-${n%%:*}/src/main.rs"; printf '[package]\nname = "a"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\n%s\n' "${n#*:}" > "cargo-${n%%:*}/Cargo.toml"; done
mkdir -p build/src; printf 'fn main() { panic!("no libfoo"); }\n' > build/build.rs; printf 'fn main() {}\n' > build/src/main.rs; cp ../rust/Cargo.toml build/; mkdir -p clean/src; cp ../rust/Cargo.toml clean/; printf 'fn main() { let x = 5; println!( "{}",x ); if x == x {} }\n' > clean/src/main.rs
cd ..; cd jv; printf 'public class Main { public static void main(String[] a) { Object o = null; o.toString(); } }\n' > Main.java; printf 'public class Sums { int f() { return "a"; } }\n' > Sums.java
printf 'public class Arr { public static void main(String[] a) { System.out.println(a[2]); } }\n' > Arr.java; printf 'import com.nowhere.Thing;\npublic class Imp { Thing t; }\n' > Imp.java; printf 'public class Semi { int x = 1 }\n' > Semi.java
printf 'public class Why { public static void main(String[] a) { try { Integer.parseInt("x"); } catch (Exception e) { throw new IllegalStateException("cannot read the port", e); } } }\n' > Why.java
printf 'public class Mem { public static void main(String[] a) { long[][] x = new long[1000][]; for (int i = 0; i < 1000; i++) x[i] = new long[10000000]; } }\n' > Mem.java; printf 'public class As { public static void main(String[] a) { assert 1 > 2 : "order"; } }\n' > As.java
printf 'public class Ex { public static void main(String[] a) { System.err.println("ERROR: the queue is full"); System.err.println("see the manual"); System.exit(5); } }\n' > Ex.java; printf 'public class So { static int f(int n) { return f(n + 1) + 1; } public static void main(String[] a) { f(0); } }\n' > So.java
printf 'public class Fi { public static void main(String[] a) throws Exception { new java.io.FileReader("/no/such"); } }\n' > Fi.java
for n in fail err comp dep; do mkdir -p mvn-$n/src/main/java mvn-$n/src/test/java; done
pom() { printf '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>x</groupId><artifactId>a</artifactId><version>1</version><properties><maven.compiler.source>17</maven.compiler.source><maven.compiler.target>17</maven.compiler.target><project.build.sourceEncoding>UTF-8</project.build.sourceEncoding></properties><dependencies><dependency><groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version></dependency></dependencies><build><plugins><plugin><artifactId>maven-surefire-plugin</artifactId><version>3.2.5</version></plugin><plugin><artifactId>maven-compiler-plugin</artifactId><version>3.13.0</version></plugin><plugin><artifactId>maven-resources-plugin</artifactId><version>3.3.1</version></plugin></plugins></build></project>' "$@"; }
for n in fail err comp; do pom org.junit.jupiter junit-jupiter 5.10.2 > mvn-$n/pom.xml; done; pom com.nowhere nothing 9.9 > mvn-dep/pom.xml; mkdir -p mvn-bad; printf '<project><modelVersion>4.0.0' > mvn-bad/pom.xml
printf 'import org.junit.jupiter.api.*;\nclass AppTest { @Test void adds() { Assertions.assertEquals(3, 1 + 1); } }\n' > mvn-fail/src/test/java/AppTest.java
printf 'import org.junit.jupiter.api.*;\nclass DbTest { @Test void reads() { throw new IllegalStateException("no database"); } }\n' > mvn-err/src/test/java/DbTest.java; printf 'class A { int f() { return nope; } }\n' > mvn-comp/src/main/java/A.java
cd ..; cd sh; printf '#!/bin/sh\nfor f in $(ls); do echo $f; done\ncd $1\n' > a.sh; printf '#!/bin/bash\nif [ 1 = 1 ]; then echo\n' > syntax.sh; printf 'x=1\n' > nobang.sh; printf '#!/bin/bash\nset -e\necho begin\necho "deploy: token has expired" >&2\nexit 9\n' > deploy.sh
printf '#!/bin/bash\nset -u\necho $NOPE\n' > unset.sh
cd ..; cd py; printf 'x = {  "a":1 }\n' > format.py; printf 'def f(:\n' > syntax.py; printf 'import sys\nimport os\n' > order.py; printf 'def f(a):\n    return undefined_name\n' > lint.py; printf 'x: int = "a"\n' > typed.py
printf 'from decimal import Decimal\nDecimal("x")\n' > decimal_.py; printf 'import sys\nprint("working")\nsys.exit("the configuration has no section db")\n' > sysexit.py; printf 'def test_a():\n    assert 1 == 2\n' > test_a.py; printf 'class Stop(BaseException): pass\nraise Stop("enough")\n' > stop.py
cd ..; cd bad; printf '{"name": "a", }' > package.json; cd ..; cd npm; printf '{"name":"n","version":"1.0.0","dependencies":{"left-pad":"99.0.0"},"scripts":{"build":"node -e \\"process.exit(2)\\"","lint":"nosuchtool ."}}' > package.json; mkdir -p ../npm404 ../npmnone ../npmci; printf '{"name":"n","version":"1.0.0","dependencies":{"@no-such-scope-000/nothing":"1"}}' > ../npm404/package.json; printf '{"name":"n","version":"1.0.0"}' > ../npmci/package.json
"""

TOOLS = r"""
tests_failed | cd js && npx jest sum.test.js
test_collection_failed | cd js && npx jest import.test.js
no_tests | cd js && npx jest nothing-like-this
tests_failed | cd vitest && npx vitest run sum.test.js
test_collection_failed | cd vitest && npx vitest run import.test.js
tests_failed | cd js && npx mocha mocha.js
tests_failed | cd js && node --test node1.js
tests_failed | cd js && node --test --test-reporter=tap node1.js
exception | cd js && node ref.js
dependency_missing | cd esm && node package.mjs
dependency_missing | cd esm && node named.mjs
compile_error | cd ts && npx --prefix ../js tsc -p . --pretty
compile_error | cd tsfile && npx --prefix ../js tsc --noEmit a.ts
dependency_missing | cd tsfile && npx --prefix ../js tsc --noEmit missing.ts
lint_failed | cd lint && npx eslint a.js
lint_failed | cd lint && npx prettier --check format.js
tests_failed | cd rust && cargo test --offline --lib
exception | cd rs && rustc index.rs && ./index
assertion_failed | cd rs && rustc assert.rs && ./assert
compile_error | cd rs && rustc types.rs
package_not_found | cd rs/cargo-dep && cargo build --offline
syntax_error | cd rs/cargo-toml && cargo build --offline
file_not_found | cd sh && cargo build
tests_failed | cd go && go test ./sum
compile_error | cd go && go test ./bad
exception | cd go && go run index.go
lint_failed | cd go && go vet vet.go
dependency_missing | cd go && GOFLAGS=-mod=mod GOPROXY=off go run missing.go
exception | cd jv && java Main.java
compile_error | cd jv && javac Sums.java
tests_failed | cd jv/mvn-fail && mvn -o -q test
compile_error | cd jv/mvn-comp && mvn -o -q compile
lint_failed | cd py && black --check format.py
lint_failed | shellcheck sh/a.sh
usage_error | cd js && npm run nothing
syntax_error | cd bad && npm install
package_not_found | cd npm && npm install
exception | python3 py/decimal_.py
unknown: the configuration has no section db | python3 py/sysexit.py
unknown: the key is wrong | node js/exit3.js
tests_failed | cd js && npx jest --ci snap.test.js
tests_failed | cd js && npx jest before.test.js
tests_failed | cd js && npx jest slow.test.js
test_collection_failed | cd js && npx jest syntax.test.js
tests_failed | cd js && npm test -- sum.test.js
tests_failed | cd js && npx jest --silent --reporters=jest-silent-reporter sum.test.js || npx jest --silent sum.test.js
tests_failed | cd vitest && npx vitest run nested.test.js
tests_failed | cd vitest && npx vitest run throws.test.js --reporter=dot
test_collection_failed | cd vitest && npx vitest run syntax.test.js
no_tests | cd vitest && npx vitest run empty.test.js
no_tests | cd vitest && npx vitest run nothing-like-this
tests_failed | cd vitest && npx vitest run sum.test.js nested.test.js --reporter=tap
tests_failed | cd js && npx mocha mochahook.js
tests_failed | cd js && npx mocha --timeout 100 mochaslow.js
tests_failed | cd js && npx mocha --reporter dot mocha.js
tests_failed | cd js && npx mocha --reporter tap mocha.js
dependency_missing | cd js && npx mocha mochamissing.js
no_tests | cd js && npx mocha nothing-like-this.js
tests_failed | cd js && node --test node2.js
test_collection_failed | cd js && node --test node3.js
tests_failed | cd js && node --test --test-reporter=dot node1.js
tests_failed | cd js && npx ava ava.test.cjs
exception | cd js && node reject.js
exception | cd js && npm start
exception | cd js && node throwobject.js
assertion_failed | cd js && node assertion.js
dependency_missing | cd esm && node relative.mjs
exception | cd esm && node require.js
dependency_missing | cd esm && node noext.mjs
exception | cd esm && node top.mjs
syntax_error | cd esm && node syntax.mjs
file_not_found | node esm/nothere.mjs
compile_error | cd tsfile && npx --prefix ../js tsc --noEmit --pretty prop.ts a.ts
compile_error | cd tsfile && npx --prefix ../js tsc --noEmit syntax.ts
dependency_missing | cd tsfile && npx --prefix ../js tsc --noEmit --pretty missing.ts
file_not_found | cd ts && npx --prefix ../js tsc -p nothere
usage_error | cd ts && npx --prefix ../js tsc --nosuchoption
file_not_found | cd tsfile && npx --prefix ../js tsc --noEmit nothere.ts
syntax_error | cd ts && npx --prefix ../js tsc -p broken.json
syntax_error | cd lint && npx eslint syntax.js
lint_failed | cd lint && npx eslint --format json a.js || npx eslint --no-color a.js
file_not_found | cd noeslint && ../js/node_modules/.bin/eslint a.js
syntax_error | cd lint && npx prettier --check syntax.js
lint_failed | cd lint && npx prettier -l format.js || npx prettier --check format.js
tests_failed | cd rust && cargo test --offline --test it
tests_failed | cd rust && cargo test --offline --doc
tests_failed | cd rust && cargo test --offline -q adds
usage_error | cd rust && cargo test --offline --test nothere
usage_error | cd rust && cargo test --no-such-option
usage_error | cd rust && cargo nosuchcommand
file_not_found | cargo build --manifest-path nothere/Cargo.toml
lint_failed | cd rs/clean && cargo fmt --check
lint_failed | cd rs/clean && cargo clippy --offline -- -D warnings
build_failed | cd rs/build && cargo build --offline
exception | cd rs && rustc unwrap.rs && ./unwrap
file_not_found | cd rs && rustc file.rs && ./file
exception | cd rs && rustc result.rs && ./result
exception | cd rs && rustc thread.rs && ./thread
crashed | cd rs && rustc -A warnings stack.rs && ./stack
compile_error | cd rs && rustc syntax.rs
compile_error | cd rs && rustc borrow.rs
dependency_missing | cd rs && rustc --edition 2021 missing.rs
file_not_found | cd rs && rustc module.rs
link_error | cd rs && rustc link.rs
file_not_found | cd rs && rustc nothere.rs
unknown: the license is invalid | cd rs && rustc exit.rs && ./exit
tests_failed | cd go && go test -v -run TestTable ./sum
tests_failed | cd go && go test -run TestPanic ./pan
timeout | cd go && go test -timeout 1s -run TestSlow ./pan
tests_failed | cd go && go test -json ./sum | head -c 100000; exit ${PIPESTATUS[0]}
exception | cd go && go run deadlock.go
exception | cd go && go run panicerr.go
exception | cd go && go run stack.go 2>&1 | tail -c 200000; exit ${PIPESTATUS[0]}
file_not_found | cd go && go run fatal.go
compile_error | cd go && go build -o /dev/null unused.go
compile_error | cd go && go vet ./bad
compile_error | cd go && go build -o /dev/null syntax.go
dependency_missing | cd go && go run std.go
syntax_error | cd go/badmod && go build ./...
file_not_found | cd sh && go build
file_not_found | cd go && go build ./nogo
unknown: quota is used up | cd go && go run exit.go
exception | cd jv && java Arr.java x
exception | cd jv && java Why.java
exception | cd jv && java So.java 2>&1 | head -50; exit ${PIPESTATUS[0]}
out_of_memory | cd jv && java -Xmx64m Mem.java
assertion_failed | cd jv && javac As.java && java -ea As
file_not_found | cd jv && java NoSuchMain
file_not_found | java -jar nothere.jar
file_not_found | cd jv && java Fi.java
compile_error | cd jv && javac Semi.java
dependency_missing | cd jv && javac Imp.java
file_not_found | cd jv && javac Nothere.java
usage_error | javac -nosuchflag
unknown: the queue is full | cd jv && java Ex.java
tests_failed | cd jv/mvn-err && mvn -o test
tests_failed | cd jv/mvn-fail && mvn -o -B test
package_not_found | cd jv/mvn-dep && mvn -o -q compile
syntax_error | cd jv/mvn-bad && mvn -o compile
file_not_found | cd sh && mvn -o compile
usage_error | cd jv/mvn-fail && mvn -o nosuchphase
compile_error | cd jv/mvn-comp && mvn -o -B test
syntax_error | cd py && black --check syntax.py
lint_failed | cd py && isort --check-only order.py
lint_failed | cd py && pylint --score=n lint.py
type_check_failed | cd py && pyright typed.py
lint_failed | cd py && black --check --diff format.py
tests_failed | cd py && pytest -q --no-summary test_a.py
exception | python3 py/stop.py
lint_failed | shellcheck -f gcc sh/a.sh
lint_failed | shellcheck sh/syntax.sh
file_not_found | shellcheck sh/nothere.sh
usage_error | bash sh/unset.sh
usage_error | cd js && npm nosuchcommand
usage_error | cd npmci && npm ci
file_not_found | cd npmnone && npm run build
package_not_found | cd npm404 && npm install
command_not_found | cd npm && npm run lint
network_unreachable | cd npm404 && npm install --registry http://127.0.0.1:9/ --fetch-retries 0
unknown: process.exit(2) | cd npm && npm run build
command_not_found | printf x | xargs nosuchprogram
command_not_found | timeout 5 nosuchprogram
"""

FRESH = r"""
tests_failed | mkdir -p n1 && cd n1 && ln -sfn "$NODE_MODULES" node_modules && echo '{}' > package.json && printf 'const cart = require("./cart");\ndescribe("cart", () => { it("sums prices", () => expect(cart([1, 2])).toBe(4)); it.skip("later", () => {}); });\n' > cart.test.js && printf 'module.exports = (x) => x.reduce((a, b) => a + b, 0);\n' > cart.js && npx jest
tests_failed | cd n1 && npx jest --coverage --colors=false cart.test.js
tests_failed | cd n1 && npx jest --json cart.test.js 2>&1 | cat; exit ${PIPESTATUS[0]}
tests_failed | cd n1 && printf 'test("throws", async () => { await Promise.reject(new Error("down")); });\n' > down.test.js && npx jest down.test.js
tests_failed | cd n1 && printf 'test.each([[1, 2], [2, 2]])("%%i equals %%i", (a, b) => expect(a).toEqual(b));\n' > each.test.js && npx jest each.test.js --bail
test_collection_failed | cd n1 && printf 'const x = undefinedThing();\ntest("a", () => x);\n' > ref.test.js && npx jest ref.test.js
no_tests | cd n1 && printf 'const a = 1;\n' > empty.test.js && npx jest empty.test.js
no_tests | cd n1 && npx jest --testPathPatterns zzz
tests_failed | cd n1 && printf 'test("obj", () => expect({ a: [1, { b: 2 }] }).toEqual({ a: [1, { b: 3 }] }));\n' > obj.test.js && CI=true npx jest obj.test.js
tests_failed | mkdir -p v1 && cd v1 && ln -sfn "$NODE_MODULES" node_modules && echo '{"type":"module"}' > package.json && printf 'import { expect, it, describe } from "vitest";\ndescribe("queue", () => { it("is empty", () => expect([1]).toHaveLength(0)); it("rejects", async () => { await expect(Promise.resolve(1)).rejects.toThrow(); }); });\n' > queue.test.js && npx vitest run
tests_failed | cd v1 && npx vitest run --reporter=verbose --no-color
tests_failed | cd v1 && npx vitest run --bail 1
tests_failed | cd v1 && printf 'import { test } from "vitest";\ntest("slow", async () => { await new Promise(() => {}); }, 200);\n' > slow.test.js && npx vitest run slow
test_collection_failed | cd v1 && printf 'import { test } from "vitest";\nthrow new Error("no env");\ntest("a", () => {});\n' > env.test.js && npx vitest run env
test_collection_failed | cd v1 && printf 'import { nothing } from "no-such-package-of-ours";\nimport { test } from "vitest";\ntest("a", () => nothing);\n' > dep.test.js && npx vitest run dep
tests_failed | mkdir -p m1/test && cd m1 && ln -sfn "$NODE_MODULES" node_modules && echo '{"scripts":{"test":"mocha"}}' > package.json && printf 'const assert = require("assert");\ndescribe("list", function () { describe("#at", function () { it("gives the last", () => assert.equal([1, 2].at(-1), 3)); }); it("second", () => { throw new TypeError("x is not a function"); }); });\n' > test/list.js && npm test
tests_failed | cd m1 && npx mocha --reporter json 2>&1; exit $?
tests_failed | cd m1 && npx mocha -R min --no-color | cat; exit ${PIPESTATUS[0]}
syntax_error | cd m1 && printf 'describe("x", () => {\n' > broken.js && npx mocha broken.js
tests_failed | mkdir -p t1 && cd t1 && printf 'import test from "node:test"; import assert from "node:assert/strict";\ntest("outer", async (t) => { await t.test("inner", () => assert.deepEqual([1], [2])); });\n' > deep.test.mjs && node --test
tests_failed | cd t1 && node --test --test-name-pattern inner --test-reporter spec | cat; exit ${PIPESTATUS[0]}
test_collection_failed | cd t1 && printf 'import { nope } from "./nope.mjs";\n' > nope.test.mjs && node --test nope.test.mjs
exception | node -e 'const a = [1]; a.map(x => x.y.z)'
exception | node -e 'setTimeout(() => { throw new Error("late failure") }, 5)'
exception | node -e 'async function f() { throw new TypeError("bad row") } f()'
exception | node -e 'new Array(-1)'
exception | node --input-type=module -e 'const r = await (async () => { throw new URIError("no scheme") })()'
syntax_error | printf 'function (\n' > s1.js && node s1.js
dependency_missing | node -e 'require("express")'
dependency_missing | printf 'import express from "express";\n' > e1.mjs && node e1.mjs
dependency_missing | printf 'import { readFileSinc } from "node:fs";\n' > e2.mjs && node e2.mjs
file_not_found | node server/index.js
file_not_found | node -e 'require("fs").readFileSync("settings.json")'
port_in_use | node -e 'const h = require("http"); h.createServer().listen(0, function () { h.createServer().listen(this.address().port) })'
compile_error | mkdir -p ts1 && cd ts1 && printf 'interface A { n: number }\nconst a: A = { m: 1 };\nexport { a };\n' > shape.ts && "$NODE_MODULES/.bin/tsc" --noEmit shape.ts
compile_error | cd ts1 && printf 'function f(x: string): number { return x; }\nf();\n' > call.ts && "$NODE_MODULES/.bin/tsc" --noEmit --pretty call.ts
compile_error | cd ts1 && printf 'class { }\n' > cls.ts && "$NODE_MODULES/.bin/tsc" --noEmit cls.ts
dependency_missing | cd ts1 && printf 'import { x } from "./lib/x";\nexport default x;\n' > imp.ts && "$NODE_MODULES/.bin/tsc" --noEmit imp.ts
usage_error | cd ts1 && "$NODE_MODULES/.bin/tsc" --target es1999 shape.ts
file_not_found | cd ts1 && "$NODE_MODULES/.bin/tsc" --project configs/
lint_failed | mkdir -p l1 && cd l1 && printf 'module.exports = [{ rules: { eqeqeq: "error", "no-var": "error" } }];\n' > eslint.config.js && printf 'var a = 1;\nif (a == 2) { a = 3; }\n' > old.js && "$NODE_MODULES/.bin/eslint" .
lint_failed | cd l1 && "$NODE_MODULES/.bin/eslint" --max-warnings 0 --color old.js
lint_failed | cd l1 && printf 'a  =   1\n' > ugly.js && "$NODE_MODULES/.bin/prettier" --check . --log-level warn
usage_error | mkdir -p p1 && cd p1 && echo '{"name":"p","scripts":{"dev":"node x.js"}}' > package.json && npm run deploy
usage_error | cd p1 && npm isntall-everything
package_not_found | cd p1 && npm install no-such-package-of-ours-0123456
package_not_found | cd p1 && npm install left-pad@77.7.7
syntax_error | mkdir -p p2 && cd p2 && printf '{ "name": "x",, }' > package.json && npm run build
file_not_found | mkdir -p p3 && cd p3 && npm test
network_unreachable | cd p1 && npm install left-pad --registry http://no-such-registry.invalid/ --fetch-retries 0
dependency_conflict | mkdir -p p4 && cd p4 && echo '{"name":"q","version":"1.0.0","engines":{"node":">=99"}}' > package.json && npm install --engine-strict
usage_error | mkdir -p p5 && cd p5 && echo '{"name":"r","version":"1.0.0"}' > package.json && npm ci
command_not_found | cd p1 && echo '{"name":"p","scripts":{"build":"webpack-nope --mode production"}}' > package.json && npm run build
tests_failed | mkdir -p r1/src && cd r1 && printf '[package]\nname = "shop"\nversion = "0.1.0"\nedition = "2021"\n' > Cargo.toml && printf 'pub fn price(n: u32) -> u32 { n * 2 }\n#[cfg(test)]\nmod tests {\n    use super::*;\n    #[test]\n    fn doubles() { assert!(price(2) == 5, "price was {}", price(2)); }\n    #[test]\n    fn unwraps() { let x: Result<u8, String> = Err("late".into()); x.unwrap(); }\n}\n' > src/lib.rs && cargo test --offline
tests_failed | cd r1 && cargo test --offline --quiet --color always
tests_failed | cd r1 && cargo test --offline doubles -- --nocapture
compile_error | mkdir -p r2/src && cd r2 && sed s/shop/store/ ../r1/Cargo.toml > Cargo.toml && printf 'fn main() { let mut v = vec![1]; let r = &v; v.push(2); println!("{:?}", r); }\n' > src/main.rs && cargo build --offline
compile_error | cd r2 && printf 'struct S;\nfn main() { S.go(); }\n' > src/main.rs && cargo check --offline
compile_error | cd r2 && printf 'fn main() { let x = 1 let y = 2; }\n' > src/main.rs && cargo run --offline
dependency_missing | cd r2 && printf 'use serde::Serialize;\nfn main() {}\n' > src/main.rs && cargo build --offline
exception | cd r2 && printf 'fn main() { let n: i32 = "x".parse().unwrap(); println!("{n}"); }\n' > src/main.rs && cargo run --offline -q
exception | cd r2 && printf 'use std::collections::HashMap;\nfn main() { let m: HashMap<&str, u8> = HashMap::new(); println!("{}", m["a"]); }\n' > src/main.rs && RUST_BACKTRACE=1 cargo run --offline -q
exception | cd r2 && printf 'fn main() -> Result<(), Box<dyn std::error::Error>> { let n: u8 = "300".parse()?; println!("{n}"); Ok(()) }\n' > src/main.rs && cargo run --offline -q
assertion_failed | cd r2 && printf 'fn main() { let a = 2; assert_ne!(a, 2, "must differ"); }\n' > src/main.rs && cargo run --offline -q
exception | cd r2 && printf 'fn main() { todo!("the parser") }\n' > src/main.rs && cargo run --offline -q
lint_failed | cd r2 && printf 'fn main() {let   a=1;println!("{a}");}\n' > src/main.rs && cargo fmt -- --check
package_not_found | mkdir -p r3/src && cd r3 && printf 'fn main() {}\n' > src/main.rs && printf '[package]\nname = "z"\nversion = "0.1.0"\n[dependencies]\nthis-crate-is-not-there-77 = "2"\n' > Cargo.toml && cargo check --offline
syntax_error | cd r3 && printf '[package\nname = "z"\n' > Cargo.toml && cargo check --offline
usage_error | cd r1 && cargo run --offline
usage_error | cd r1 && cargo build --profil release
file_not_found | mkdir -p empty1 && cd empty1 && cargo test
tests_failed | mkdir -p g1/calc && cd g1 && printf 'module ex.am/g1\n\ngo 1.19\n' > go.mod && printf 'package calc\n\nfunc Div(a, b int) int { return a / b }\n' > calc/calc.go && printf 'package calc\n\nimport "testing"\n\nfunc TestDiv(t *testing.T) { if Div(4, 2) != 3 { t.Fatalf("want 3") } }\nfunc TestZero(t *testing.T) { Div(1, 0) }\n' > calc/calc_test.go && go test ./...
tests_failed | cd g1 && go test -v -run 'TestDiv$' ./calc
tests_failed | cd g1 && go test -count=1 -failfast ./calc 2>&1 | cat; exit ${PIPESTATUS[0]}
compile_error | mkdir -p g2 && cd g2 && printf 'module ex.am/g2\n\ngo 1.19\n' > go.mod && printf 'package main\n\nfunc main() { var s string = 3; println(s + undefinedVar) }\n' > main.go && go build
compile_error | cd g2 && go vet
exception | cd g2 && printf 'package main\n\ntype T struct{ n int }\n\nfunc main() { var t *T; println(t.n) }\n' > main.go && go run .
exception | cd g2 && printf 'package main\n\nimport "sync"\n\nfunc main() { var w sync.WaitGroup; w.Add(1); w.Wait() }\n' > main.go && go run .
exception | cd g2 && printf 'package main\n\nfunc main() { var x interface{} = "a"; _ = x.(int) }\n' > main.go && go run .
dependency_missing | cd g2 && printf 'package main\n\nimport _ "example.org/driver/pq"\n\nfunc main() {}\n' > main.go && GOPROXY=off go build
lint_failed | cd g2 && printf 'package main\n\nimport "fmt"\n\nfunc main() { fmt.Println("a", 1); return; fmt.Println("b") }\n' > main.go && go vet .
unknown: cannot reach the queue | cd g2 && printf 'package main\n\nimport "log"\n\nfunc main() { log.Println("starting"); log.Fatalf("cannot reach the queue") }\n' > main.go && go run .
file_not_found | cd empty1 && go test ./...
usage_error | go buidl
compile_error | mkdir -p j1 && cd j1 && printf 'class Shop { int total() { String s = missing; return s } }\n' > Shop.java && javac Shop.java
compile_error | cd j1 && printf 'interface A { void f(); }\nclass B implements A { }\n' > B.java && javac B.java
exception | cd j1 && printf 'class Cast { public static void main(String[] a) { Object o = "x"; Integer i = (Integer) o; } }\n' > Cast.java && java Cast.java
exception | cd j1 && printf 'import java.util.*;\nclass It { public static void main(String[] a) { new ArrayList<String>().iterator().next(); } }\n' > It.java && javac It.java && java It
exception | cd j1 && printf 'class Th { public static void main(String[] a) throws Exception { Thread t = new Thread(() -> { throw new RuntimeException("worker"); }); t.start(); t.join(); System.exit(1); } }\n' > Th.java && java Th.java
dependency_missing | cd j1 && printf 'class Cls { public static void main(String[] a) throws Exception { Class.forName("org.postgresql.Driver"); } }\n' > Cls.java && java Cls.java
file_not_found | cd j1 && java -jar target/app.jar
file_not_found | cd j1 && java com.example.Main
network_unreachable | cd j1 && printf 'class Net { public static void main(String[] a) throws Exception { new java.net.Socket("127.0.0.1", 9); } }\n' > Net.java && java Net.java
tests_failed | mkdir -p mv1/src/test/java && cd mv1 && cp ../jv/mvn-fail/pom.xml . && printf 'import org.junit.jupiter.api.*;\nimport static org.junit.jupiter.api.Assertions.*;\nclass StoreTest { @Test void opens() { assertTrue(false, "closed"); } @Test void reads() { assertThrows(IllegalStateException.class, () -> {}); } }\n' > src/test/java/StoreTest.java && mvn -o test
tests_failed | cd mv1 && mvn -o -B -q verify
compile_error | cd mv1 && printf 'class Broken { void f() { int x = "a"; } }\n' > src/test/java/Broken.java && mvn -o -B test
usage_error | cd mv1 && mvn -o compyle
package_not_found | cd mv1 && sed -i 's/5.10.2/0.0.99/' pom.xml && mvn -o -B compile
lint_failed | printf 'import os,sys\nx=1\n' > b1.py && black --check -q b1.py || black --check b1.py
syntax_error | printf 'class A\n    pass\n' > b2.py && black b2.py
lint_failed | printf 'import sys\nimport abc\n' > i1.py && isort --check i1.py
lint_failed | printf 'def f(x):\n    return y\n' > pl.py && pylint pl.py
type_check_failed | printf 'def f(x: int) -> str:\n    return x\n' > pr.py && pyright pr.py
tests_failed | printf 'import pytest\n@pytest.mark.parametrize("n", [1, 2])\ndef test_n(n):\n    assert n == 1\n' > test_p1.py && pytest -q -rN --tb=no test_p1.py
exception | printf 'import subprocess\nsubprocess.run(["false"], check=True)\n' > sp.py && python3 sp.py
unknown: the token has expired | printf 'import sys\nprint("syncing")\nsys.exit("the token has expired")\n' > ex.py && python3 ex.py
lint_failed | printf '#!/bin/bash\nrm -rf $DIR/*\n[ $a == 1 ] && echo ok\n' > rm.sh && shellcheck rm.sh
lint_failed | shellcheck --format=tty --severity=warning --color=always rm.sh || shellcheck --color=always rm.sh
unknown: backup: the disk is not mounted | printf 'echo begin\necho "backup: the disk is not mounted" >&2\necho bye\nexit 3\n' > bk.sh && bash bk.sh
command_not_found | printf 'echo a\nnosuchtool --sync\n' > ct.sh && bash -e ct.sh
command_not_found | find . -maxdepth 1 -name 'ct.sh' | xargs -n1 nosuchformatter
"""
