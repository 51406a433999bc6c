# Building needs Go, make and git. The tests need what `deps` looks for; a C
# compiler adds the race detector.

KILLS    ?= 2000
FUZZTIME ?= 30s

TOOLS := bin/tools
ALL    = $(shell go list ./...)
# The rooms where goroutines meet. The pure ones have none, and their exhaustive
# checks run whole only without the detector.
RACED  = $(filter stave/internal/runelog% $(addprefix stave/internal/,\
           model model/script model/queue model/wire engine hooks secret),$(ALL))
# Programs the tests run, each with the Debian package it comes in.
NEEDED = bash:bash git:git bwrap:bubblewrap node:nodejs npm:npm strace:strace
RACE   = $(if $(filter 1,$(shell env -u CGO_ENABLED go env CGO_ENABLED)),CGO_ENABLED=1 go test -race,go test)
# Packages whose tests write what they check when told to -update.
DRAWN  = $(addprefix ./,$(sort $(dir $(shell grep -rl --include='*_test.go' '"update"' cmd internal))))

# What is tested is what is shipped: one static binary.
export CGO_ENABLED := 0

# Version stamping asks git for a commit; a tree without one must build too.
ifneq ($(shell git rev-parse --verify --quiet HEAD >/dev/null 2>&1 && echo committed),committed)
export GOFLAGS := $(shell go env GOFLAGS) -buildvcs=false
endif

.DEFAULT_GOAL := help
.PHONY: help run build test lint bench crash fuzz docs clean tools deps

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' Makefile

run: build ## play the demo: no key, no network
	./bin/stave demo

build: ## build bin/stave
	go build -trimpath -o bin/stave ./cmd/stave

test: deps lint ## lint, then every test, a short kill -9 campaign and the check of generated docs among them
	$(if $(findstring -race,$(RACE)),,@echo 'test: no C compiler, so the race detector stays off')
	$(RACE) $(RACED)
	go test $(filter-out $(RACED),$(ALL))

lint: tools ## gofumpt, go vet, staticcheck
	@unformatted=$$($(TOOLS)/gofumpt -l cmd internal) || exit 1; \
	if [ -n "$$unformatted" ]; then \
		echo "lint: not in gofumpt's form; $(TOOLS)/gofumpt -w these:"; echo "$$unformatted"; exit 1; \
	fi
	go vet ./...
	$(TOOLS)/staticcheck ./...

tools:
	@go -C tools build -o ../$(TOOLS)/ tool || { \
		echo 'lint: the tools in tools/go.mod could not be built.'; \
		echo 'lint: the first build downloads them, so it needs a network or a filled module cache.'; \
		echo 'lint: nothing was checked.'; exit 1; }

deps:
	@missing=; for p in $(NEEDED); do command -v $${p%%:*} >/dev/null || missing="$$missing $${p##*:}"; done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "test: installing$$missing"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	else \
		echo "test: these packages are missing and cannot be installed from here:$$missing"; exit 1; \
	fi

bench: ## every benchmark
	go test -run '^$$' -bench . -benchmem -timeout 60m $(ALL)

crash: ## the long kill -9 campaign (KILLS=2000)
	STAVE_KILLS=$(KILLS) go test ./internal/crash -run TestKill -count=1 -timeout 60m -v

fuzz: ## each fuzz target for FUZZTIME (30s)
	@grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' cmd internal | \
	sed -E 's|^(.*)/[^/]*:func (.*)$$|\1 \2|' | \
	while read -r dir target; do \
		echo "fuzz: $$dir $$target"; \
		go test "./$$dir" -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x || exit 1; \
	done

docs: ## draw the generated docs and golden files again
	go test -count=1 $(DRAWN) -update

clean: ## remove what was built
	rm -rf bin
