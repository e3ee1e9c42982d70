"""moto that serves S3 alone.

    python -m tests.spark.one_service PORT

moto's own server looks which of two hundred services each request is for, and lists the directory of its package for it: a sixth of
what a request costs. Werkzeug's ends each connection behind one answer and tells of it in the log, which costs as much as moto does.
"""

import sys
from http import HTTPStatus
from io import BytesIO

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple
from werkzeug.test import run_wsgi_app


class OneService(DomainDispatcherApplication):
    def get_backend_for_host(self, host: str | None) -> str:
        return "s3"


class Handler(MotoRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def run_wsgi(self) -> None:
        environ = self.make_environ()
        environ["wsgi.input"] = BytesIO(self.rfile.read(int(environ.get("CONTENT_LENGTH") or 0)))
        pieces, status, headers = run_wsgi_app(self.server.app, environ, buffered=True)
        body = b"".join(pieces)
        code = int(status.split()[0])
        self.send_response_only(code)
        self.send_header("Date", self.date_time_string())
        if code != HTTPStatus.NO_CONTENT and "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def main(port: int) -> None:
    application = OneService(create_backend_app)
    run_simple("127.0.0.1", port, application, threaded=True, request_handler=Handler)


if __name__ == "__main__":
    main(int(sys.argv[1]))
