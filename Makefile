# Two commands for newcomers: `make demo` and `make test`. Each sets everything up by itself.
SHELL := /bin/bash
.PHONY: demo test check build install system-packages crash-campaign clean

demo: build
	npx tsx demo/demo.ts

test: system-packages build
	bash scripts/test.sh

# The inner loop: types, lint, unit tests, unused code.
check: build
	npm run --silent check

build: node_modules/.package-lock.json
	npm run --silent build

install: node_modules/.package-lock.json

# ONNX Runtime's install script would fetch CUDA libraries; the CPU one is inside the package.
node_modules/.package-lock.json: package.json package-lock.json
	ONNXRUNTIME_NODE_INSTALL=skip npm ci --no-fund --no-audit
	@touch $@

system-packages:
	bash scripts/system-packages.sh

# KILLS=50 SEED=1 make crash-campaign
crash-campaign: build
	npx tsx test/crash/campaign.ts --kills $${KILLS:-50} $${SEED:+--seed $$SEED}

clean:
	rm -rf dist .tmp coverage
