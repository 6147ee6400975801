# What can be done with this tree. `make help` lists it; CI runs `make test`.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

GO       ?= go
BIN      := $(CURDIR)/bin
GPULAB   := $(BIN)/gpulab
HELM     := $(lastword $(wildcard $(or $(GPULAB_CACHE),/var/cache/gpulab)/bin/helm/*/helm))
STATE    := $(or $(GPULAB_STATE),/var/lib/gpulab)
LDFLAGS  := -s -w
# Programs that open NVML when they run: its symbols must not be bound at start.
NVML_LDFLAGS := $(LDFLAGS) -extldflags=-Wl,-z,lazy
# NVIDIA's own programs that the toolkit installs on hosts, built unchanged.
NVIDIA_CMD := $(addprefix github.com/NVIDIA/nvidia-container-toolkit/cmd/,nvidia-container-runtime nvidia-ctk nvidia-cdi-hook)
GOLANGCI := v2.15.0

# Packages whose tests start an API server; they run in a step of their own.
API_TESTS := ./internal/cluster/... ./internal/controller/...
# Nodes of the lab for the stories: driver in the OS image, bare, without GPU.
STORY_LAB := --nodes 3 --gpus 8xH100-SXM5-80GB,8xH100-SXM5-80GB,none --driver host,none,none

##@ Use it
.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' Makefile

.PHONY: demo
demo: root $(GPULAB) ## From nothing to a Pod on its GPU: a real cluster with simulated GPUs on this machine
	$(GPULAB) demo

##@ Build
.PHONY: build
build: programs $(GPULAB) ## Build the product's programs and the lab into bin/

.PHONY: programs
programs: ## Build what the two images carry (see deploy/Dockerfile) into bin/
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/gpu-operator ./cmd/nvidia-runtime-shim
	CGO_ENABLED=1 $(GO) build -trimpath -ldflags '$(NVML_LDFLAGS)' -o $(BIN)/ ./cmd/gpu-node $(NVIDIA_CMD)

.PHONY: $(GPULAB)
$(GPULAB):
	CGO_ENABLED=0 $(GO) build -C lab -trimpath -o $@ ./cmd/gpulab

.PHONY: generate
generate: ## Write every generated file anew: deep copies, CRDs, install.yaml, the schema of values, docs/reasons.md
	$(GO) tool controller-gen object paths=./api/...
	$(GO) tool controller-gen crd paths=./api/... output:crd:dir=deploy/crds
	cp deploy/crds/*.yaml deploy/chart/gpu-operator/crds/
	if [ -x "$(HELM)" ]; then $(HELM) template gpu-operator deploy/chart/gpu-operator --namespace gpu-operator --include-crds \
	  --kube-version 1.37.2 --set createPolicy=false >deploy/install.yaml; else echo "install.yaml left out: the lab builds helm at its first up"; fi
	$(GO) test ./internal/archtest -count=1 -run 'TestReasonsAreDocumented|TestValuesSchema' -update
	$(GO) test ./internal/cli/node -count=1 -run TestHostsAreDocumented -update

##@ Check
.PHONY: test
test: root test-unit test-api test-lab test-e2e ## Everything CI asks for: units, API server, lab, stories on real nodes

.PHONY: test-unit
test-unit: ## Tests that need nothing but Go and gcc
	$(GO) vet ./...
	$(GO) test $$($(GO) list ./... | grep -v -e /test/e2e$$ $(foreach p,$(API_TESTS),-e $(patsubst ./%/...,/%,$(p))))

.PHONY: test-api
test-api: $(GPULAB) ## Tests against a real API server (built on first use)
	eval "$$($(GPULAB) assets)"; $(GO) test $(API_TESTS)

.PHONY: test-lab
test-lab: ## Tests of the lab's own code
	cd lab && $(GO) vet ./... && $(GO) test ./...

.PHONY: test-e2e
test-e2e: root $(GPULAB) ## The stories, on a new lab of three real nodes; KEEP=1 leaves it running
	$(GPULAB) down
	$(GPULAB) build containerd-1.6 helm # the stories run in the lab's network, which reaches no archive
	trap 'test -n "$(KEEP)" || $(GPULAB) down' EXIT; \
	$(GPULAB) up $(STORY_LAB); \
	$(GPULAB) run -- env GPULAB=$(GPULAB) GPULAB_AUDIT_LOG=$(STATE)/logs/audit.log \
	  $(GO) test -count=1 -timeout 60m -v -run TestStories ./test/e2e

.PHONY: test-all
test-all: export REST_MINUTES = 5
test-all: verify test fuzz bench ## test with the full five minutes at rest, and verify, fuzz and bench

.PHONY: test-gpu
test-gpu: ## Checks that need a real NVIDIA GPU on this machine
	GPU_REAL=1 $(GO) test -count=1 -v -run TestRealGPU ./internal/gpu

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME (10s)
	$(GO) list ./... | while read -r p; do \
	  for f in $$($(GO) test -list '^Fuzz' $$p | grep ^Fuzz || true); do \
	    $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(or $(FUZZTIME),10s) $$p; \
	  done; \
	done

.PHONY: bench
bench: ## Run the benchmarks
	$(GO) test -run '^$$' -bench . -benchmem $$($(GO) list ./... | grep -v /test/e2e$$)

.PHONY: verify
verify: generate ## Fail when generated files, modules or lint are not as committed
	$(GO) mod tidy -diff
	cd lab && $(GO) mod tidy -diff
	gofmt -l $$(git ls-files '*.go' | grep -v zz_generated) | tee /dev/stderr | wc -l | grep -qx 0
	if [ -x $(BIN)/golangci-lint ]; then $(MAKE) --no-print-directory lint; else echo "lint left out: make lint builds it"; fi
	git diff --exit-code

.PHONY: lint
lint: $(BIN)/golangci-lint ## Run golangci-lint (built on first use, some minutes)
	$(BIN)/golangci-lint run ./...
	cd lab && $(BIN)/golangci-lint run --config ../.golangci.yml ./...

$(BIN)/golangci-lint: Makefile
	GOBIN=$(BIN) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI)
	touch $@

##@ Clean
.PHONY: clean
clean: ## Remove bin/ and a running lab; the lab's cache of built programs stays
	if [ -x $(GPULAB) ] && [ "$$(id -u)" = 0 ]; then $(GPULAB) down; fi
	rm -rf $(BIN) dist

.PHONY: root
root:
	@[ "$$(id -u)" = 0 ] || { echo "the lab boots real nodes and needs root: run it as root (sudo make ...)"; exit 2; }
