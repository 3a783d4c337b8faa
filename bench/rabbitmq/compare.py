"""Runs the clients in turns and prints the median of each, beside that of node's amqplib."""

import argparse
import pathlib
import re
import statistics
import subprocess

HERE = pathlib.Path(__file__).parent
# 1,000 messages in flight: two batches of 500, or one window.
BATCH, LANES, WINDOW = "500", "2", "1000"
RUST = ("sink", "lapin", "amqprs")


def measured(output):
    """Returns messages a second and µs of client CPU per message."""
    rate, cpu = re.search(r"(\d+) /s\s+([\d.]+) µs", output).groups()
    return int(rate), float(cpu)


def run(options, client, shape):
    """Runs one client once, on a queue of its own that is empty."""
    queue = f"bench.{client}"
    count = str(options.count)
    subprocess.run([options.program, "prepare", options.amqp, queue, shape, "0", BATCH, LANES], check=True)
    if client == "amqplib":
        command = ["node", str(HERE / "amqplib.js"), options.amqp, queue, shape, count, WINDOW]
    else:
        command = [options.program, client, options.amqp, queue, shape, count, BATCH, LANES]
    return measured(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--amqp", required=True)
    parser.add_argument("--count", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shapes", default="celery,event")
    parser.add_argument("--clients", default=",".join((*RUST, "amqplib")))
    options = parser.parse_args()
    clients = options.clients.split(",")
    for shape in options.shapes.split(","):
        results = {client: [] for client in clients}
        for turn in range(options.rounds):
            # Each round begins with another client.
            for client in clients[turn % len(clients) :] + clients[: turn % len(clients)]:
                results[client].append(run(options, client, shape))
        usual = statistics.median(rate for rate, _ in results["amqplib"])
        print(f"\n| {shape} | messages/s | all rounds | client CPU | of amqplib |\n|---|---|---|---|---|")
        for client, rounds in results.items():
            rate = statistics.median(rate for rate, _ in rounds)
            cpu = statistics.median(cpu for _, cpu in rounds)
            every = ", ".join(str(rate) for rate, _ in rounds)
            print(f"| {client} | {rate:.0f} | {every} | {cpu:.1f} µs | {rate / usual:.0%} |", flush=True)


if __name__ == "__main__":
    main()
