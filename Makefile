# SPDX-License-Identifier: Apache-2.0

# The one place where the version stands. Digits and dots only: opkg and apk
# both order such versions in the same way.
VERSION := 0.1.0
RELEASE := 1

FUZZTIME    ?= 10s
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.7.0

# Functions copied into their callers are a tenth of the compressed program. That pays
# where packets pass; everything else, Go's runtime too, runs a few times a minute.
INLINED := $(addprefix fastpath/src/,packet flow forward xsk)

# No CGO: one file that runs with musl, glibc or neither.
GOBUILD = CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$(VERSION)" \
	-gcflags=all=-l $(INLINED:%=-gcflags=%=)

# What OpenWrt runs on. MIPS routers have no FPU, and 386 means down to the Geode, which has no SSE2.
TARGETS := amd64 arm64 armv7 armv5 mipsle mips riscv64 386
ENV_amd64   := GOARCH=amd64
ENV_arm64   := GOARCH=arm64
ENV_armv7   := GOARCH=arm GOARM=7
ENV_armv5   := GOARCH=arm GOARM=5
ENV_mipsle  := GOARCH=mipsle GOMIPS=softfloat
ENV_mips    := GOARCH=mips GOMIPS=softfloat
ENV_riscv64 := GOARCH=riscv64
ENV_386     := GOARCH=386 GO386=softfloat

# OpenWrt's architectures and the target of each, as the feed's golang-values.mk has
# them: an ARM without a named FPU is GOARM=5. The 386 target runs on all x86.
ARCHES := x86_64 aarch64_cortex-a53 aarch64_generic arm_cortex-a7_neon-vfpv4 arm_cortex-a9 mipsel_24kc mips_24kc riscv64 i386_pentium4
TARGET_x86_64                   := amd64
TARGET_aarch64_cortex-a53       := arm64
TARGET_aarch64_generic          := arm64
TARGET_arm_cortex-a7_neon-vfpv4 := armv7
TARGET_arm_cortex-a9            := armv5
TARGET_mipsel_24kc              := mipsle
TARGET_mips_24kc                := mips
TARGET_riscv64                  := riscv64
TARGET_i386_pentium4            := 386

ASH_SCRIPTS  := hotplug/iface/60-fastpath hotplug/net/60-fastpath files/fastpath.init files/testdata/rc.common package/pack/postinst package/pack/prerm
BASH_SCRIPTS := .ci/run .ci/deps .ci/fuzz .ci/generate-check .ci/size .ci/stages

.PHONY: help deps build cross size generate generate-check lint unit engines fuzz vm test demo bench bench-vm ipk index clean FORCE

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## */\1\t/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r t h; do printf '  %-15s %s\n' "$$t" "$$h"; done

deps: ## install by apt, as root, what tests and demo need and this machine lacks
	@.ci/deps

build: ## build/fastpath, static, for this machine
	$(GOBUILD) -o build/fastpath ./src/cmd/fastpath

cross: $(TARGETS:%=build/%/fastpath) ## build/TARGET/fastpath for every target

build/%/fastpath: FORCE
	GOOS=linux $(ENV_$*) $(GOBUILD) -o $@ ./src/cmd/fastpath

size: cross ## build every target and hold each to its budget of flash
	@.ci/size $(TARGETS)

generate: ## compile the BPF program again (clang)
	go generate ./src/bpf

generate-check: ## the committed BPF program is what their source gives
	@.ci/generate-check

lint: ## gofmt, go vet, staticcheck, shellcheck, busybox ash -n
	@fmt=$$(gofmt -l src package hotplug files); [ -z "$$fmt" ] || { echo "gofmt would change:" $$fmt; exit 1; }
	go vet ./...
	go vet -tags guest ./src/itest/...
	@echo "staticcheck: its first run downloads and compiles it, a silent minute or two"
	go run $(STATICCHECK) ./...
	go run $(STATICCHECK) -tags guest ./src/itest/...
	shellcheck -s dash $(ASH_SCRIPTS)
	shellcheck $(BASH_SCRIPTS)
	@for s in $(ASH_SCRIPTS); do busybox ash -n $$s || exit 1; done

unit: ## unit, golden and namespace tests beside the code, with the race detector
	go test -race -count=1 -timeout 20m $$(go list ./... | grep -v -e /src/itest -e /src/testkit/vm)

fuzz: ## every fuzzer for FUZZTIME (10s)
	@.ci/fuzz $(FUZZTIME)

engines: ## the engines between namespaces, with real sockets and traffic
	go test -count=1 -p 1 -timeout 30m ./src/itest/engine ./src/itest/bench ./src/itest/faults

vm: ## end-to-end tests in VMs (qemu): several kernels, real pppd
	@echo "VMs are emulated: this takes about ten minutes, and each package prints when it is done"
	go test -count=1 -timeout 80m ./src/testkit/vm/... $$(go list ./src/itest/... | grep -v -e /engine -e /bench -e /faults)

test: export FASTPATH_LONG := 1
test: deps ## everything; MUSTRUN=1 makes a test that can't run a failure
	@.ci/stages lint unit engines fuzz size generate-check vm

demo: deps build/amd64/fastpath ## a router in a VM is accelerated (ENGINE=xdp or afxdp, WAN=dslite, KERNEL=path); or SCENARIO=iptv, sqm, two-wans, roaming, dslite, early-drop
	go run ./src/itest/demo/host build/amd64/fastpath

bench: deps ## CPU per packet of each way to forward: bench/results.json, .svg (ROUNDS=30)
	go test -run '^$$' -bench Rewrite ./src/packet
	go run ./src/itest/bench

bench-vm: deps build/amd64/fastpath ## instructions per packet of each way to forward, in VMs: bench/results-vm.json (KERNEL=path)
	go run ./src/itest/icount/host build/amd64/fastpath

ipk: $(ARCHES:%=ipk-%) ## build/fastpath_VERSION_ARCH.ipk for every architecture, the same bytes for the same source

ipk-%: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
.SECONDEXPANSION:
ipk-%: build/$$(TARGET_$$*)/fastpath
	go run ./package/pack ipk -version $(VERSION)-r$(RELEASE) -arch $* -binary $< -out build

index: ipk ## build/Packages and Packages.gz: build/ as a feed for opkg
	go run ./package/pack index build

clean: ## remove what was built
	rm -rf build
