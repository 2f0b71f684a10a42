.DEFAULT_GOAL := help
.PHONY: help demo test test-race test-fips size prove local-up local-status local-down

GO       ?= go
BACKENDS := $(GO) run ./localstack
# Modules of their own bring what users of idem should not get.
MODULES  := kmsenc/localkms

help: ## this text
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## the payment function on the Lambda runtime emulator: killed, timed out, redelivered, and every order charged once
	$(BACKENDS) exec -- $(GO) run ./examples/payment/demo

test: ## everything that is tested, in every module, with an engine that this machine can run
	$(GO) vet ./...
	for m in $(MODULES); do $(GO) vet -C $$m ./... && $(GO) test -C $$m ./... || exit 1; done
	$(BACKENDS) exec -- $(GO) test -timeout 20m ./...

# What takes minutes and has its concurrency in other processes is not run twice.
NO_RACE  := TestExplore|TestFaultMatrix|TestQueue|TestKilled|TestTimedOut|TestPaused|TestErrorTypes|TestLinearizableUnderFaults/ministack

test-race: ## the same under the race detector, but for what runs in other processes
	$(BACKENDS) exec -- $(GO) test -race -skip '$(NO_RACE)' ./...

test-fips: ## sealing under FIPS 140-3 only
	GODEBUG=fips140=only $(GO) test ./kmsenc/...

size: ## what kmsenc adds to a Lambda binary
	bash kmsenc/size.sh

prove: ## the exploration of the protocol in its larger scopes too: some minutes, 5 GB
	IDEM_EXPLORE=long $(GO) test -timeout 60m -run TestExplore -v .

local-up: ## start the engine in the background: eval "$$(make -s local-up)"
	@$(BACKENDS) up

local-status: ## what runs
	@$(BACKENDS) status

local-down: ## stop it
	@$(BACKENDS) down
