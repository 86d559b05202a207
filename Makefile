# One-word targets; each sets up what it needs. The steps themselves are functions of tools/build/steps.sh.
STEPS := tools/build/steps.sh

.PHONY: all quick test nightly lint format docs wheel conformance clean demo
all: ; @$(STEPS) build release
quick: ; @$(STEPS) quick
test: ; @$(STEPS) everything
nightly: ; @$(STEPS) nightly
lint: ; @$(STEPS) lint
format: ; @$(STEPS) format
docs: ; @$(STEPS) docs
wheel: ; @$(STEPS) wheel
conformance: ; @$(STEPS) conformance
demo: ; @$(STEPS) demo
clean: ; rm -rf build
