"""Asks a line-by-line server on loopback: `ask.py PORT LINE` prints the answer."""

import socket
import sys

with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=30) as connection:
    connection.sendall(sys.argv[2].encode() + b"\n")
    print(connection.makefile().readline().strip())
