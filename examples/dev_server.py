"""A development server that stays: it answers after a suspension, in the same process, with the same memory.

python examples/dev_server.py
"""

from __future__ import annotations

from holdfast import Holdfast

SERVER = """
import http.server

class Counter(http.server.BaseHTTPRequestHandler):
    seen = 0

    def do_GET(self):
        Counter.seen += 1
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"visit %d\\n" % Counter.seen)

http.server.HTTPServer(("127.0.0.1", 8000), Counter).serve_forever()
"""
VISIT = "curl -s http://127.0.0.1:8000/"


def main() -> None:
    with Holdfast() as hf, hf.new(remove=True) as work:
        work.files.write("/workspace/server.py", SERVER.encode())
        work.detach("python3 server.py", name="server")
        work.wait_port(8000)
        print(work.exec(VISIT, timeout=60).text, end="")
        work.suspend()  # no process, no memory: only a snapshot on disk
        print("suspended")
        work.resume()
        print(work.exec(VISIT, timeout=60).text, end="")


if __name__ == "__main__":
    main()
