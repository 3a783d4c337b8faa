# receiver.py
from http.server import BaseHTTPRequestHandler, HTTPServer


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        print("received", self.headers["pillarbox-event-type"], body, flush=True)
        self.send_response(204)  # Any 2xx status is a delivery.
        self.end_headers()

    def log_message(self, *_):
        pass


HTTPServer(("127.0.0.1", 8080), Receiver).serve_forever()
