# The commands of everyday work; `make` alone lists them.

.DEFAULT_GOAL := help
.PHONY: help setup test test-long test-postgres fmt lint guide demo torture simulate failover inbox measure bench bench-quick bench-compare bench-celery servers servers-stop

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install the dependencies of the tests that are missing
	@scripts/setup

test: ## everything that must pass: format, lints, tests and doc tests, on private servers
	@scripts/setup
	@scripts/test

test-long: ## hours of simulation, torture in twenty variants and failover: make test-long KILLS=200
	@scripts/setup
	@KILLS=$(KILLS) FAILOVERS=$(FAILOVERS) scripts/test-long

test-postgres: ## the tests of PostgreSQL on all versions: make test-postgres VERSIONS="14 17"
	@scripts/setup
	@scripts/test-postgres $(VERSIONS)

fmt: ## format the code
	cargo fmt --all

lint: ## the lints of `make test`
	cargo clippy --workspace --all-targets --all-features -- -D warnings

guide: ## build the guide into target/guide and check its links
	@scripts/setup
	@scripts/guide build

demo: ## the program's own demonstration
	cargo run --release -- demo

torture: ## kill relays and servers, and count what arrives: make torture ARGS="--help"
	cargo build --release -p pillarbox-cli -p pillarbox-testkit
	$${CARGO_TARGET_DIR:-target}/release/torture $(ARGS)

simulate: ## real relays on simulated time, store and destinations: make simulate ARGS="--seed 7"
	cargo build --release -p pillarbox-testkit --bin simulate
	$${CARGO_TARGET_DIR:-target}/release/simulate $(ARGS)

failover: ## kill primaries, promote standbys, drop packets: make failover ARGS="--failovers 3 --way slot"
	@scripts/setup
	cargo build --release -p pillarbox-cli -p pillarbox-testkit
	$${CARGO_TARGET_DIR:-target}/release/failover $(ARGS)

inbox: ## kill receivers behind a relay and count what they handled: make inbox ARGS="--events 5000 express"
	@scripts/setup
	cargo build -p pillarbox-cli
	cargo build -p pillarbox-inbox --all-features --examples
	@scripts/inbox $(ARGS)

measure: ## measure one case, such as once, death, outage, slot or large: make measure ARGS=death
	cargo build --release -p pillarbox-cli -p pillarbox-testkit
	$${CARGO_TARGET_DIR:-target}/release/measure $(ARGS)

bench: ## compare with its peers and with plain SQL: writes bench/RESULTS.md, under an hour
	@bench/run $(ARGS)

bench-quick: ## the same, with small counts and one round: a few minutes, into bench/.quick
	@bench/run --quick $(ARGS)

bench-compare: ## compare this tree with an earlier commit, in turns: make bench-compare BASE=main~5
	@bench/compare $(BASE) $(ARGS)

bench-celery: ## compare with django-celery-outbox's relay, on the same rows: about eight minutes
	@bench/celery/run $(ARGS)

servers: ## start PostgreSQL, RabbitMQ and Redis for tests run by hand, and print their addresses
	@scripts/setup
	@scripts/servers start

servers-stop: ## stop these servers
	@scripts/servers stop
