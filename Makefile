# One command each; "make" alone prints this list. Needs: Go (see go.mod), and
# for the tests a JDK 17 and Maven, which run the real database, and root on Linux
# (CAP_SYS_ADMIN, CAP_NET_ADMIN), for networks that can be cut.

GO      ?= go
BIN     := bin/belfry
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -X main.version=$(VERSION)

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.7.0
BUF         := github.com/bufbuild/buf/cmd/buf@v1.50.0
PROTOC_GO   := google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12

.DEFAULT_GOAL := help

.PHONY: help
help: ## print this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 16

.PHONY: need-go
need-go:
	@command -v $(GO) >/dev/null 2>&1 || { echo "missing: go (install Go, the version that go.mod names)"; exit 1; }

.PHONY: need-java
need-java: need-go
	@$(GO) build -o bin/cassandra ./persistence/cassandra/cmd/cassandra
	@bin/cassandra -need

.PHONY: build
build: need-go ## build bin/belfry
	@$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/belfry

.PHONY: run
run: build ## start a node on the embedded store, with demo jobs firing
	@exec $(BIN) dev

# Packages whose tests wait for real processes or members, one after another.
# Those of chaos do without the race detector: they look at other processes.
TIMED := /cluster|/persistence/c

# Random lives of the pure core, one goroutine each, with memory to spare.
SIMULATIONS := ^(TestSimulation|TestFleet|TestDependencies|TestEdges)$$

.PHONY: test
test: need-java ## all tests, race detector on, with a real Cassandra
	$(GO) vet ./...
	$(GO) test -race -timeout 15m $$($(GO) list ./... | grep -vE '$(TIMED)|/chaos')
	$(GO) test -race -timeout 15m -p 1 $$($(GO) list ./... | grep -E '$(TIMED)')
	GOGC=400 BELFRY_SIM_SEEDS=10000 $(GO) test -timeout 20m -run '$(SIMULATIONS)' ./actors/partition
	$(GO) test -timeout 30m ./chaos/...

.PHONY: lint
lint: need-go ## gofmt, vet, staticcheck, the import arrows
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo "run gofmt on these"; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	$(GO) test -count=1 -run Arrows ./cmd/belfry

.PHONY: bench
bench: build ## the numbers of docs/benchmarks.md, some 20 minutes
	$(BIN) bench register
	$(BIN) bench import
	$(BIN) bench spike
	$(BIN) bench steady
	$(BIN) bench memory

.PHONY: cassandra
cassandra: need-java ## start the test database on 127.0.0.1:9042; Ctrl-C ends it
	@exec bin/cassandra

# How often each fault happens in "make chaos": docs/reliability.md names the
# promise that each number is for. A kill is one in each scenario that kills.
CHAOS := BELFRY_CHAOS_KILLS=20
CHAOS += BELFRY_CHAOS_CONTROLS=5
CHAOS += BELFRY_CHAOS_BLACKOUTS=5
CHAOS += BELFRY_CHAOS_TAKERS=3
CHAOS += BELFRY_CHAOS_PAUSES=10
CHAOS += BELFRY_CHAOS_CLOCKS=5
CHAOS += BELFRY_CHAOS_RESTARTS=12
CHAOS += BELFRY_CHAOS_GAP_SECONDS=60
CHAOS += BELFRY_CHAOS_CUTS=9
CHAOS += BELFRY_CHAOS_SPLIT_SECONDS=120
CHAOS += BELFRY_CHAOS_DATABASE_KILLS=5
CHAOS += BELFRY_CHAOS_AWAY_SECONDS=60
CHAOS += BELFRY_CHAOS_OUTAGE_SECONDS=60
CHAOS += BELFRY_CHAOS_DOUBTS=200
CHAOS += BELFRY_CHAOS_HERD=50000
CHAOS += BELFRY_CHAOS_RETRIES=500
CHAOS += BELFRY_CHAOS_OVERLOAD=10
CHAOS += BELFRY_CHAOS_OVERLOAD_SECONDS=30
CHAOS += BELFRY_CHAOS_JOBS=1000000
CHAOS += BELFRY_CHAOS_RATED_SECONDS=15

.PHONY: chaos
chaos: need-java ## all faults until the numbers of docs/reliability.md are reached, within ninety minutes
	$(GO) test -count=1 -timeout 10m ./chaos/check
	$(CHAOS) $(GO) test -count=1 -timeout 90m -v ./chaos
	BELFRY_CRASH_POINTS=2000 BELFRY_FENCE_HISTORIES=50 $(GO) test -count=1 -timeout 10m -v -run '^(TestPowerCut|TestPowerCutWhileOpening|TestTornLastWrite|TestFailedDisk|TestSlowDisk|TestFullDisk|TestSuite)$$' ./persistence/embedded
	BELFRY_FENCE_HISTORIES=50 $(GO) test -count=1 -timeout 10m -v -run '^(TestSuite|TestFightsUnderFaultsAreLinearizable|TestZombieWriteIsDead|TestDoubtsAreSettled|TestBrokenConnectionsAreSettled)$$' ./persistence/cql
	$(GO) test -count=1 -timeout 10m -run '^(TestScripts|TestFleetScripts|TestLinkScripts|TestMalformedRowsAmongGoodOnes|TestCatchUpAsTheOracleSays|TestAnOutageOfAnyLength|TestOutagesOverClockChanges)$$' ./actors/partition
	GOGC=400 BELFRY_SIM_SEEDS=10000 $(GO) test -count=1 -timeout 30m -run '$(SIMULATIONS)' ./actors/partition
	$(MAKE) fuzz

.PHONY: fuzz
fuzz: need-go ## every fuzz target, each for SECONDS=20; those that found something are named at the end
	@found=; for pkg in $$(grep -rl '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u); do \
		for target in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9]+).*/\1/p' $$pkg/*_test.go); do \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(or $(SECONDS),20)s -fuzzminimizetime 1s $$pkg || found="$$found $$pkg:$$target"; \
		done; \
	done; \
	test -z "$$found" || { echo "found something:$$found"; exit 1; }

.PHONY: rated
rated: need-java ## how late deliveries are under rising loads without faults: embedded store, one Cassandra, three; for a quiet machine
	BELFRY_CHAOS_RATED_SECONDS=60 $(GO) test -count=1 -timeout 60m -run '^TestRated' -v ./chaos
	BELFRY_CHAOS_RATED_SECONDS=60 BELFRY_CHAOS_RATED_DATABASES=3 $(GO) test -count=1 -timeout 60m -run '^TestRatedOnDatabase$$' -v ./chaos

.PHONY: soak
soak: need-java ## random faults for HOURS=1 on three nodes and three database nodes, and 200 times the simulated lives; reports go to bin/soak
	BELFRY_SOAK_MINUTES=$$(( $(or $(HOURS),1) * 60 )) BELFRY_SOAK_DATABASES=3 BELFRY_SOAK_REPORT=$(CURDIR)/bin/soak $(GO) test -count=1 -timeout $$(( $(or $(HOURS),1) + 1 ))h -run '^TestSoak$$' -v ./chaos
	GOGC=400 BELFRY_SIM_SEEDS=1000000 BELFRY_SIM_FIRST=100000 $(GO) test -count=1 -timeout 24h -run '$(SIMULATIONS)' -v ./actors/partition

.PHONY: generate
generate: need-go ## protobuf code and openapi.json, after a change of their sources
	GOBIN=$(CURDIR)/bin $(GO) install $(BUF)
	GOBIN=$(CURDIR)/bin $(GO) install $(PROTOC_GO)
	cd messages && PATH=$(CURDIR)/bin:$$PATH buf generate
	$(GO) generate ./gateway

.PHONY: clean
clean: ## remove what was built
	rm -rf bin
