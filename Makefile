# make demo and make test do all the set-up they need on a Debian machine as root with Go on it.

GO      ?= go
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo 0.1.0)
export CGO_ENABLED = 0
# The same flags everywhere, or each package would be compiled once for the programs and once more for the tests and the linters.
export GOFLAGS := $(shell $(GO) env GOFLAGS) -trimpath -ldflags=-s

.PHONY: demo test build memory deps deps-test lint generate check-generated test-unit test-flows test-netns test-lab test-catalogue test-turn test-long test-faults test-conditions soak-sriov bench bench-field bench-generator bench-search bench-placement bench-path bench-paths bench-tune planted planted-lab healthy kills fuzz sbom packages test-packages test-ansible clean clean-lab

demo: memory deps build     ## the main job on a real host in a box, ends with an HTML report in out/demo
	bin/mpps-lab demo --out out/demo

test: deps-test build       ## everything but the long scenes of the emulated host, see scripts/test
	@scripts/test
	@echo "all tests passed"

build:                      ## bin/mpps, the static program for hosts; beside it mpps-lab, and mpps-guest for the lab's guests
	@scripts/announce "building mpps" "seconds; the first time 1 to 3 minutes" \
		$(GO) build -ldflags '-s -X mpps/internal/version.Version=$(VERSION)' -o bin/ ./cmd/...

memory:                     ## whether an emulated host finds its 6 GiB and what QEMU takes beside them
	@scripts/memory 6656

deps:                       ## installs the packages that the lab needs, and says which
	@scripts/deps

deps-test:                  ## and those that the tests and the eBPF compiler need
	@scripts/deps test

lint:
	@test -z "$$(gofmt -l cmd docs internal test tools)" || { gofmt -l cmd docs internal test tools; echo "gofmt would change these files"; exit 1; }
	$(GO) mod tidy -diff
	$(GO) -C tools mod tidy -diff
	$(GO) -C tools/packages mod tidy -diff
	@! git grep -nE '^//go:build .*!(netns|lab|faults)' -- '*.go' || { echo "vet and staticcheck run with these tags and would not see these files"; exit 1; }
	$(GO) vet -tags netns,lab,faults ./...
	$(GO) tool staticcheck -tags netns,lab,faults ./...
	$(GO) -C tools vet ./...
	$(GO) -C tools/packages vet .
	cd tools && $$($(GO) -C .. tool -n staticcheck) ./...

generate:                   ## compiles the eBPF programs
	$(GO) generate ./internal/...

check-generated:            ## the committed eBPF objects are those of the sources
	@scripts/check-generated

test-unit:                  ## libvirt's schema and promtool must be there: see scripts/deps
	MPPS_LIBVIRT_SCHEMA=required MPPS_PROMTOOL=required scripts/in-memory $(GO) test -vet=off -timeout 30m -p 3 ./test/gallery ./...
	$(GO) -C tools test -vet=off $$($(GO) -C tools list ./... | grep -v /sbom$$)

NETNS_TESTS = MPPS_BIN=$(CURDIR)/bin/mpps $(GO) test -tags netns -vet=off -count=1 -exec $(CURDIR)/scripts/own-mounts -timeout 30m -p 1 \
	-run "$$(scripts/tagged -run netns)"

# What follows flows waits more than it works, and bears any load: scripts/test plays it beside the units.
NETNS_FLOWS = ./internal/measure/trace

# What judges rates has the machine to itself.
NETNS_ALONE = ./test/planted ./internal/measure/rig ./test/vhostuser

# cmd/mpps is played in three parts beside each other, the last after all other packages.
NETNS_HALF = Test(Bench|Acceptance[PQ]|Healthy)
NETNS_LAST = Test(Steer|Hostile)

test-flows: build           ## those of test-netns that follow flows
	$(NETNS_TESTS) $(NETNS_FLOWS)

test-netns: build           ## as root, in network namespaces of its own: three at a time, and those that judge rates alone; not test-flows
	@set -e; code=; \
	$(NETNS_TESTS) -skip '^($(NETNS_HALF)|$(NETNS_LAST))' ./cmd/mpps & most=$$!; \
	$(NETNS_TESTS) -run "$$(scripts/tagged -run netns '$(NETNS_HALF)')" ./cmd/mpps & half=$$!; \
	$(NETNS_TESTS) $$(scripts/tagged netns | grep -vxF "$$(printf '%s\n' ./cmd/mpps $(NETNS_FLOWS) $(NETNS_ALONE))") || code=1; \
	$(NETNS_TESTS) -run "$$(scripts/tagged -run netns '$(NETNS_LAST)')" ./cmd/mpps || code=1; \
	wait $$half || code=1; \
	wait $$most && [ -z "$$code" ]
	$(NETNS_TESTS) $(NETNS_ALONE)

LAB_TESTS = MPPS_BIN=$(CURDIR)/bin/mpps $(GO) test -tags lab -vet=off -count=1 -p 3 -run "$$(scripts/tagged -run lab)"

LAB_PACKAGES = $$($(GO) run ./test/scenes/play -order $$(scripts/tagged lab))

# What of test/e2e is played beside the rest of it.
LAB_HALF = '^TestTunedGuest$$'

# The slowest machine so far took 35 minutes for the hosts, most of which a package may wait for its turn.
test-lab: build             ## in emulated KVM hosts, two at a time, a third package waits; the longest begin
	@set -e; code=; \
	$(LAB_TESTS) -short -timeout 40m -skip $(LAB_HALF) $(LAB_PACKAGES) & rest=$$!; \
	$(LAB_TESTS) -run $(LAB_HALF) -timeout 40m ./test/e2e || code=1; \
	wait $$rest && [ -z "$$code" ]

test-catalogue: build       ## every knob of the catalogue set on the emulated host, seen by other programs, and put back: 5 to 10 minutes
	MPPS_BIN=$(CURDIR)/bin/mpps $(GO) test -tags lab -count=1 -timeout 25m -run '^TestCatalogue$$' ./test/catalogue

test-turn: deps-test build  ## a quarter of the long scenes, chosen by the commit: TURN=0 to 3 names one, UNTIL ends it (seconds since 1970)
	@mkdir -p out/test && rm -f out/test/turn.jsonl
	MPPS_LAB_STATS=$(CURDIR)/out/test/turn.jsonl MPPS_BIN=$(CURDIR)/bin/mpps $(GO) run ./test/scenes/play -turn $(or $(TURN),-1) -until $(or $(UNTIL),0)

test-long: deps-test build  ## all scenes of the emulated hosts, over an hour: before a release
	$(LAB_TESTS) -timeout 120m $(LAB_PACKAGES)

test-faults:                ## kills the program and resets the emulated host at every point, and prints what was lost: nothing
	$(GO) test -tags faults -count=1 -timeout 30m -v ./test/faults

test-conditions: deps-test build  ## unit and namespace tests on one CPU, beside six busy loops and under nohup, those of flows in 20 namespaces: about four hours
	scripts/test-conditions

soak-sriov: build           ## 50 times a virtual function is made, given to a guest, started with, taken back and removed: nothing is left
	MPPS_SOAK=50 MPPS_BIN=$(CURDIR)/bin/mpps $(GO) test -tags lab -count=1 -timeout 60m -v -run '^TestSoak$$' ./test/sriov

bench:                      ## speed and size of the program itself
	$(GO) test -run '^$$' -bench . -benchmem ./internal/advise/audit/... ./internal/model/facts/... ./internal/machine/...

bench-field: deps build     ## generators, transactions and CPU times beside those of other programs, about 10 minutes
	scripts/bench-field

bench-generator: deps build ## the generators of bench-field alone
	scripts/bench-field -parts generators

bench-search:               ## our search beside MLRsearch on simulated devices: seconds, errors, coverage, on fixed seeds
	scripts/bench-search

bench-placement: deps build ## a guest in the emulated host as libvirt leaves it and as placed, in turns, and 30 random big hosts
	$(GO) test -count=1 -v -run TestImprovement ./internal/advise/placement
	$(GO) test -tags lab -count=1 -timeout 20m -v -run '^$$' -bench Placement -benchtime 1x ./test/place

bench-path:                 ## what watching queues costs a path at its highest rate, and one where CPUs wait for a lock, and what mending a fault gains: in turns with and without, 8 minutes
	$(GO) test -tags netns -count=1 -v -run '^$$' -bench Watching -benchtime 30x ./internal/measure/trace
	$(GO) test -tags netns -count=1 -v -run '^$$' -bench Gain -benchtime 1x ./internal/machine/lanes

bench-tune: deps build      ## one guest's packets as found, with two of TuneD's profiles, with all of a plan at once and with what mpps tune keeps, in rounds, in the emulated host: 30 minutes
	MPPS_BIN=$(CURDIR)/bin/mpps $(GO) test -tags lab -count=1 -timeout 60m -v -run '^$$' -bench Against -benchtime 1x ./test/tune

bench-paths: deps build     ## nine ways to a guest in the emulated host, bridge to vhost-user, each as found and under a plan: an estimated 50 minutes, a page in out/paths.html
	mkdir -p out
	bin/mpps-lab paths --workloads pps,ndr,rr --repeat 6 --keep=false -o out/paths.json
	bin/mpps report out/paths.json -o out/paths.html

planted: build               ## bottlenecks planted in network namespaces, and whether mpps diagnose finds them: the table, as root, 12 minutes
	MPPS_PLANTED_ONLY="$${MPPS_PLANTED_ONLY:-*}" MPPS_BIN=$(CURDIR)/bin/mpps $(GO) test -tags netns -count=1 -timeout 30m -v -run '^TestPlanted$$' ./test/planted

healthy:                     ## the loop on 50 paths on which nothing that it tries does anything: nothing is kept; 20 minutes
	MPPS_HEALTHY=50 $(GO) test -tags netns -count=1 -timeout 60m -v -run '^TestHealthyPaths$$' ./cmd/mpps

kills: build                 ## the loop killed at 200 random moments: the beginning is restored each time; an hour
	MPPS_TUNE_KILLS=200 MPPS_BIN=$(CURDIR)/bin/mpps $(GO) test -tags netns -count=1 -timeout 180m -v -run '^TestTuneKilled$$' ./cmd/mpps

planted-lab: build           ## those that need their own kernel, in the emulated host
	MPPS_BIN=$(CURDIR)/bin/mpps $(GO) test -tags lab -count=1 -timeout 40m -v -run '^TestPlantedHost$$' ./test/planted

FUZZTIME ?= 60s

fuzz:                       ## every fuzz function for FUZZTIME; LIMIT (seconds) ends it, and names what it had no time for
	@scripts/fuzz $(FUZZTIME) $(or $(LIMIT),0)

sbom: build                 ## out/PROGRAM.cdx.json: what is linked into each program, as CycloneDX; checked
	@scripts/sbom
	$(GO) -C tools test ./sbom

packages:                   ## out/packages: deb and rpm for amd64 and arm64, SHA256SUMS; two builds of a commit are identical
	@scripts/packages

test-packages: deps-test    ## builds them twice, and installs, upgrades, removes and purges them in scratch roots
	@scripts/deps packages
	$(GO) -C tools/packages test -count=1 -timeout 60m .

test-ansible: build         ## the collection of deploy/ansible over ssh against three hosts in namespaces, and its linters; from PyPI, 10 minutes
	@scripts/test-ansible

clean:
	rm -rf bin out

clean-lab: build            ## removes the cached root trees of the lab
	bin/mpps-lab clean
