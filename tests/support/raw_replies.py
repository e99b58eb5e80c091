"""Raw replies of a server: heads to go on from, and a body that unpacks to far too much."""

import gzip

LENGTH_9 = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n"
ENDLESS = b"HTTP/1.1 200 OK\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
BOMB = ENDLESS.replace(b"OK", b"OK\r\nContent-Encoding: gzip") + gzip.compress(bytes(50_000_000))
