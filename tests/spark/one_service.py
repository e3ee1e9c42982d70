"""moto that serves S3 alone.

    python -m tests.spark.one_service PORT

moto's own server looks which of two hundred services each request is for, and lists the directory of its package for it: a sixth of
what a request costs.
"""

import sys

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple


class OneService(DomainDispatcherApplication):
    def get_backend_for_host(self, host: str | None) -> str:
        return "s3"


def main(port: int) -> None:
    application = OneService(create_backend_app)
    run_simple("127.0.0.1", port, application, threaded=True, request_handler=MotoRequestHandler)


if __name__ == "__main__":
    main(int(sys.argv[1]))
