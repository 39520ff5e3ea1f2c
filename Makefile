# `make help` lists the targets.
.PHONY: help demo test lint fuzz book

NEXTEST := $(shell command -v cargo-nextest 2>/dev/null)
SECONDS ?= 60

help: ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

demo: ## a kernel from source to result, on the interpreter
	cargo run --quiet --package metile --example tour

test: ## all tests, with 10,000 random programs
ifdef NEXTEST
	METILE_RANDOM_PROGRAMS=10000 cargo nextest run --workspace
else
	METILE_RANDOM_PROGRAMS=10000 cargo test --workspace --all-targets
endif
	cargo test --workspace --doc
	cargo run --quiet --package metile --example tour > /dev/null

lint: ## formatter and clippy
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- --deny warnings

fuzz: ## every fuzz target for SECONDS each; needs nightly and cargo-fuzz
	mkdir -p fuzz/corpus/tile_ir_text fuzz/corpus/kernel_macro fuzz/corpus/gguf fuzz/corpus/gguf_tokenizer fuzz/corpus/safetensors
	cargo +nightly fuzz run tile_ir_text fuzz/corpus/tile_ir_text fuzz/seeds/tile_ir_text -- -max_total_time=$(SECONDS) -dict=fuzz/tile_ir.dict
	cargo +nightly fuzz run kernel_macro fuzz/corpus/kernel_macro fuzz/seeds/kernel_macro -- -max_total_time=$(SECONDS)
	cargo +nightly fuzz run gguf fuzz/corpus/gguf fuzz/seeds/gguf -- -max_total_time=$(SECONDS) -dict=fuzz/gguf.dict -malloc_limit_mb=64
	cargo +nightly fuzz run gguf_tokenizer fuzz/corpus/gguf_tokenizer fuzz/seeds/gguf -- -max_total_time=$(SECONDS) -dict=fuzz/gguf.dict -malloc_limit_mb=64
	cargo +nightly fuzz run safetensors fuzz/corpus/safetensors fuzz/seeds/safetensors -- -max_total_time=$(SECONDS) -dict=fuzz/safetensors.dict -malloc_limit_mb=64

book: ## the book as HTML under docs/book; needs mdbook
	mdbook build docs
