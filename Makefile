.DEFAULT_GOAL := help
.PHONY: help demo test test-race test-fips size prove mutants bench local-up local-status local-down lint-template build-PaymentFunction build-PaymentQueueFunction

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

size: ## what kmsenc, and what all wrappers and observers, add to a Lambda binary
	bash kmsenc/size.sh
	bash lambdawrap/size.sh

prove: ## the exploration of the protocol in its larger scopes too: some minutes, 5 GB
	IDEM_EXPLORE=long $(GO) test -timeout 60m -run TestExplore -v .

mutants: ## drop or flip one rule at a time and see a test fail: about 25 minutes, goes on where it was stopped
	$(GO) run ./internal/mutate

bench: ## what idem adds to the SDK calls it makes, as ratios in one run
	IDEM_ENGINE=dynoxide $(BACKENDS) exec -- $(GO) run ./internal/bench

local-up: ## start the engine in the background: eval "$$(make -s local-up)"
	@$(BACKENDS) up

local-status: ## what runs
	@$(BACKENDS) status

local-down: ## stop it
	@$(BACKENDS) down

# sam build calls these with ARTIFACTS_DIR set. The architecture is that of template.yaml; LAMBDA_ARCH=amd64 is for the runtime emulator.
LAMBDA_ARCH  ?= arm64
LAMBDA_BUILD  = CGO_ENABLED=0 GOOS=linux GOARCH=$(LAMBDA_ARCH) $(GO) build -buildvcs=false -trimpath -tags lambda.norpc -ldflags='-s -w'

build-PaymentFunction:
	$(LAMBDA_BUILD) -o "$(ARTIFACTS_DIR)/bootstrap" ./examples/payment

build-PaymentQueueFunction:
	$(LAMBDA_BUILD) -o "$(ARTIFACTS_DIR)/bootstrap" ./examples/paymentqueue

CFN_LINT := .local/cfn-lint/bin

lint-template: $(CFN_LINT)/installed ## template.yaml and what the SAM transform makes of it, by cfn-lint
	$(CFN_LINT)/cfn-lint --include-checks I --template template.yaml
	$(CFN_LINT)/python internal/sam/expand.py template.yaml > $(CFN_LINT)/expanded.json
	$(CFN_LINT)/cfn-lint --include-checks I --template $(CFN_LINT)/expanded.json

$(CFN_LINT)/installed: internal/sam/lint.txt
	rm -rf .local/cfn-lint && python3 -m venv .local/cfn-lint
	$(CFN_LINT)/pip install --quiet --disable-pip-version-check --requirement internal/sam/lint.txt
	touch $@
