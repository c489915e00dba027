# SPDX-License-Identifier: MIT
# ridge: `make help` lists the targets.

CC      ?= cc
comma   := ,
BUILD   ?= build
OPT     ?= -O3 -g
WARN    := -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes
ARCH    := $(shell uname -m)
MULTI   := $(ARCH)-linux-gnu
# OpenBLAS of the OpenMP kind, by its own folder: the system's default may be the pthread kind,
# whose second pool of threads fights ours.
BLAS    := /usr/lib/$(MULTI)/openblas-openmp
CFLAGS  := -std=c11 -D_GNU_SOURCE $(OPT) $(WARN) $(WERROR) -fPIC -fvisibility=hidden -fopenmp \
           -ffp-contract=off -fno-math-errno -fno-trapping-math \
           -Icore -I/usr/include/luajit-2.1 $(EXTRA)
LDLIBS  := -L$(BLAS) -Wl,-rpath,$(BLAS) -ldnnl -l:libopenblas.so.0 -lpthread -ldl -lm
# one file of vector loops, compiled for three instruction sets
SIMD_base   :=
SIMD_avx2   := -march=x86-64-v3
SIMD_avx512 := -march=x86-64-v4 -mprefer-vector-width=512
SIMDS   := base $(if $(filter x86_64,$(ARCH)),avx2 avx512)

# What a call passes through is compiled as one unit, so that small functions of other files are
# inlined: calls of small tensors take 0.9 of the time.  Not in builds with sanitizers or coverage,
# nor with compilers that cannot link into an object; `make LTO=` leaves it out.
LTO     ?= $(if $(EXTRA),,$(if $(shell $(CC) -v 2>&1 | grep '^gcc version'),-flto=auto))

CORE    := $(sort $(shell find core -name '*.c' -not -path 'core/cpu/simd/*' \
             -not -path core/dist/mpi.c) $(wildcard gpu/*.c))
SIMD    := $(sort $(wildcard core/cpu/simd/*.c))
HOST    := $(sort $(wildcard lua/*.c))
LUA     := $(sort $(shell find lua/ridge recipes -name '*.lua' 2>/dev/null))
PAGES   := $(sort $(shell find docs -name '*.md' 2>/dev/null))
HEADERS := $(sort $(wildcard core/ridge.h core/ridge/*.h))
UNIT    := $(if $(LTO),$(filter $(foreach d,base tensor op grad cpu,core/$(d)/%.c),$(CORE)))
UNITOBJ := $(UNIT:%.c=$(BUILD)/obj/%.o)
OBJ     := $(patsubst %.c,$(BUILD)/obj/%.o,$(filter-out $(UNIT),$(CORE))) \
           $(if $(UNIT),$(BUILD)/obj/unit.o) \
           $(foreach s,$(SIMDS),$(SIMD:core/cpu/simd/%.c=$(BUILD)/obj/simd/%_$(s).o))
HOSTOBJ := $(HOST:%.c=$(BUILD)/obj/%.o) $(BUILD)/obj/embedded.o
CTESTS  := $(sort $(wildcard tests/c/test_*.c))
CTESTBIN := $(CTESTS:tests/c/%.c=$(BUILD)/tests/%)
SPECS   := $(wildcard tests/op tests/lua tests/*_spec.lua)

# all processors, unless the command line says how many
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc)
endif

# messages between processes, by a library of their own, where Open MPI is (scripts/deps mpi)
MPI_INC := $(shell pkg-config --cflags-only-I ompi-c 2>/dev/null)
MPI_OBJ := $(BUILD)/obj/core/dist/mpi.o
MPI_LIBRARY := $(if $(MPI_INC),$(BUILD)/libridge_mpi.so)

# each step is one short line; `make V=1` shows the commands
show = $(if $(V),,@echo "  $(1)";)
# What the compiler says of an object stays beside it, where `make strict` looks.
compile = code=0; $(CC) $(CFLAGS) $(1) -MMD -MP -c -o $@ $< 2>$@.said || code=1; \
          cat $@.said >&2; exit $$code

.DELETE_ON_ERROR:
.PHONY: all
all: ridge $(BUILD)/libridge.so $(BUILD)/ridge.so  ## build the ridge program and the library
all: $(MPI_LIBRARY)

# -- what scripts/deps installs must be there before anything compiles ---------
ifneq ($(filter-out clean help,$(or $(MAKECMDGOALS),all)),)
include $(BUILD)/deps.mk
endif
$(BUILD)/deps.mk: scripts/deps
	@scripts/deps
	@mkdir -p $(@D)
	@touch $@

# -- the core -------------------------------------------------------------------
$(BUILD)/obj/core/%.o: core/%.c
	@mkdir -p $(@D)
	$(call show,cc $<)$(compile)
$(UNITOBJ): CFLAGS += $(LTO)
$(BUILD)/obj/unit.o: $(UNITOBJ)
	$(call show,ld $@)code=0; $(CC) $(OPT) -fPIC $(LTO) -r -flinker-output=nolto-rel \
	  -nostdlib -o $@ $^ 2>$@.said || code=1; cat $@.said >&2; exit $$code
# what opens a GPU is in every build; the kernels are a library of their own
$(BUILD)/obj/gpu/%.o: gpu/%.c
	@mkdir -p $(@D)
	$(call show,cc $<)$(call compile,-I.)

define SIMD_RULE
$(BUILD)/obj/simd/%_$(1).o: core/cpu/simd/%.c
	@mkdir -p $$(@D)
	$$(call show,cc $$< $(1))$$(call compile,-fopenmp-simd $(SIMD_$(1)) -DRG_SIMD=$(1))
endef
$(foreach s,$(SIMDS),$(eval $(call SIMD_RULE,$(s))))

# the public headers as LuaJIT reads them, as a C string of the library
$(BUILD)/ridge.cdef: $(HEADERS)
	@mkdir -p $(@D)
	@$(CC) -E -P -DRG_CDEF -Icore core/ridge.h > $@
$(BUILD)/obj/core/cdef.o: $(BUILD)/cdef.inc
$(BUILD)/cdef.inc: $(BUILD)/ridge.cdef
	@sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/"/' -e 's/$$/\\n"/' $< > $@
$(BUILD)/obj/core/cdef.o: CFLAGS += -I$(BUILD) -Wno-overlength-strings
$(BUILD)/obj/core/ridge.o: CFLAGS += -I. -include $(BUILD)/git.h
$(BUILD)/obj/core/ridge.o: CFLAGS += -DRG_FLAGS='"$(strip $(OPT) $(LTO))"'
$(BUILD)/obj/core/ridge.o: $(BUILD)/git.h
# every measurement says which commit measured, and whether the tree was changed since
$(BUILD)/git.h: .PHONY_git
	@mkdir -p $(@D)
	@scripts/git_facts >$@.new && { cmp -s $@.new $@ || cp $@.new $@; }; rm -f $@.new
.PHONY: .PHONY_git

$(MPI_OBJ): CFLAGS += $(MPI_INC:-I%=-isystem %)
$(BUILD)/libridge_mpi.so: $(MPI_OBJ)
	$(call show,ld $@)$(CC) -shared $(EXTRA) -o $@ $^ $(shell pkg-config --libs ompi-c)

$(BUILD)/libridge.so: $(OBJ) $(BUILD)/obj/lua/worker.o
	$(call show,ld $@)$(CC) -shared -fopenmp $(EXTRA) -o $@ $^ $(LDLIBS)

# -- the LuaJIT host ------------------------------------------------------------
$(BUILD)/obj/lua/%.o: lua/%.c
	@mkdir -p $(@D)
	$(call show,cc $<)$(compile)
$(BUILD)/embedded.c: scripts/embed.lua $(LUA) $(PAGES) $(sort $(dir $(LUA) $(PAGES)))
	@luajit scripts/embed.lua lua recipes docs > $@
$(BUILD)/obj/embedded.o: $(BUILD)/embedded.c
	@$(call compile,-Wno-overlength-strings)
$(BUILD)/ridge: $(OBJ) $(HOSTOBJ)
	$(call show,ld $@)$(CC) -fopenmp $(EXTRA) -rdynamic -o $@ $^ -lluajit-5.1 -ledit $(LDLIBS)
ridge: $(BUILD)/ridge
	@ln -sf $(BUILD)/ridge ridge
# core and sources as a Lua module, for plain luajit: neither prompt nor signals
# nodelete: a finalizer that runs after the Lua state released its libraries may still call them
MODULEOBJ := $(BUILD)/obj/lua/embed.o $(BUILD)/obj/lua/terminal.o $(BUILD)/obj/lua/worker.o \
  $(BUILD)/obj/embedded.o
$(BUILD)/ridge.so: $(OBJ) $(MODULEOBJ)
	$(call show,ld $@)$(CC) -shared -Wl,-z,nodelete -fopenmp $(EXTRA) -o $@ $^ $(LDLIBS)

include gpu/gpu.mk

# -- tests ------------------------------------------------------------------------
# Test programs take less than half as long to compile with -O1, and but for those with long loops
# of their own are as fast; what they test is compiled as ever.
LONG    := %/test_f8.o %/test_gemm_i8.o
# A hundred of them are linked: by a linker that takes less than half the time, where there is one.
QUICK_LD := $(if $(EXTRA),,$(patsubst ld.%,-fuse-ld=%,$(notdir $(shell \
             command -v ld.lld || command -v ld.gold))))
$(BUILD)/obj/tests/%.o: tests/%.c
	@mkdir -p $(@D)
	$(call show,cc $<)$(call compile,$(if $(filter $(LONG),$@),,$(OPT:-O3=-O1)))
$(BUILD)/tests/%: $(BUILD)/obj/tests/c/%.o $(OBJ)
	@mkdir -p $(@D)
	@$(CC) -fopenmp $(EXTRA) $(QUICK_LD) -o $@ $^ $(LDLIBS)

# messages that wait (tests/dist), where there are any
SLOW_LIBRARY := $(if $(MPI_INC),$(BUILD)/tests/libridge_slow.so)
$(BUILD)/tests/libridge_slow.so: $(BUILD)/obj/tests/dist/slow_mpi.o $(MPI_LIBRARY)
	@mkdir -p $(@D)
	$(call show,ld $@)$(CC) -shared $(EXTRA) -o $@ $< -ldl

.PHONY: demo gallery test test-c test-op test-lua check format
demo: all            ## draw this machine's performance landscape, in about five minutes
	./ridge recipes/landscape.lua
gallery: all         ## one picture of every kind, from sweeps measured for it
	./ridge recipes/gallery.lua --out results/kept/gallery
# One file more at a time than there are processors, since many wait: for a quiet machine, for what
# they ended.  More than four would fight for them with threads of their own.
JOBS    := $(shell n=$$(nproc); echo $$((n < 4 ? n + 1 : 4)))
RUN     := scripts/run_tests -j $(JOBS)
# The simulated GPU is tried whatever failed before.  (No $$(MAKE): `make -n` would run the line.)
test: all test-programs $(if $(NVCC),test-gpusim-builds)  ## run every test
	@code=0; $(RUN) $(CTESTBIN) $(if $(NVCC),$(filter-out tests/op,$(SPECS)),$(SPECS)) || code=1; \
	$(if $(NVCC),scripts/gpu/sim.sh $(SIM_TRIED) cpu || code=1;) exit $$code
test-c: test-programs          ## run the C tests
	@$(RUN) $(CTESTBIN)
test-op: all         ## run the operations against the slow reference
	@$(RUN) tests/op
test-lua: all $(SLOW_LIBRARY)  ## run the Lua specs
	@$(RUN) tests/lua
.PHONY: test-programs
test-programs: $(CTESTBIN) $(SLOW_LIBRARY)

# ONNX_VENV is a virtual environment with onnx and onnxruntime; no test needs one.
.PHONY: onnx
onnx: all            ## run ONNX's tests, and models beside ONNX Runtime
	@scripts/onnx/check.sh

.PHONY: docs
docs: all            ## make web pages of the documentation, in build/docs, with cmark-gfm
	@scripts/deps docs
	@rm -rf $(BUILD)/docs $(BUILD)/pages
	@$(BUILD)/ridge docs --markdown $(BUILD)/pages
	@luajit scripts/site.lua $(BUILD)/pages $(BUILD)/docs

.PHONY: readers
readers:             ## get what opens traces and event files, for tests (TensorBoard, Perfetto)
	@scripts/readers/install.sh

.PHONY: jupyter
jupyter: all         ## try the kernel with Jupyter's own tools (jupyter_kernel_test, nbclient)
	@scripts/jupyter/check.sh

check: all strict    ## run what is not a test: layers, docs, map, words, format, lint and so on
	@scripts/deps lint
	@$(RUN) tests/check
	@CC='$(CC)' luajit scripts/check/run.lua
.PHONY: strict objects
OBJECTS := $(OBJ) $(UNITOBJ) $(HOSTOBJ) $(if $(MPI_INC),$(MPI_OBJ)) \
  $(CTESTS:%.c=$(BUILD)/obj/%.o) $(if $(MPI_INC),$(BUILD)/obj/tests/dist/slow_mpi.o)
strict: objects      ## fail if the compiler said anything of any object
	@said=$$(cat $(OBJECTS:%=%.said) 2>/dev/null) || \
	  said="$(BUILD) has objects of which nobody kept what the compiler said: make clean"; \
	[ -z "$$said" ] || { echo "$$said" >&2; exit 1; }
objects: $(OBJECTS)
format:              ## let clang-format write the C files
	@scripts/deps lint
	@luajit scripts/check/format.lua --write

# -- long runs, each with a build folder of its own --------------------------------
.PHONY: nightly asan ubsan tsan memcheck ranks cover
nightly:             ## run all of the next five, kill runs, fuzzing; keeps results/nightly.md
	@scripts/nightly.sh
asan:                ## run every test under AddressSanitizer
ubsan:               ## run every test under UndefinedBehaviorSanitizer
tsan:                ## run the C tests under ThreadSanitizer
memcheck:            ## let the n-th allocation fail, for all n, over the C tests
ranks:               ## train on two ranks under all three sanitizers
asan ubsan tsan memcheck ranks:
	@scripts/nightly.sh $@
cover:               ## print what no test reaches
	@scripts/cover.sh

# PREFIX and DESTDIR go on as they were given, in make's environment: a quote in them is one
.PHONY: install uninstall
install: all         ## put it below PREFIX (/usr/local), as DESTDIR/PREFIX where that is given
	@scripts/install $(BUILD)
uninstall:           ## remove what install put there
	@scripts/install --remove

# what LuaRocks calls: scripts/ridge-dev-1.rockspec
.PHONY: install-rock
install-rock: all
	@cp $(BUILD)/ridge.so "$${ROCK_LIB:?LuaRocks says where}/"
	@cp $(BUILD)/ridge "$${ROCK_BIN:?LuaRocks says where}/"
ifneq ($(MPI_LIBRARY),)
	@cp $(MPI_LIBRARY) "$${ROCK_LIB}/" # each looks for it in its own folder
	@cp $(MPI_LIBRARY) "$${ROCK_BIN}/"
endif
.PHONY: deb check-deb
deb: all             ## make the Debian packages ridge, ridge-doc, ridge-mpi, in build/deb
	@scripts/deb $(BUILD)
check-deb: deb       ## lintian; install, use, upgrade, remove them in an empty Debian (root)
	@scripts/debian/check.sh $(BUILD)/deb

.PHONY: clean help
clean:               ## remove what was built
	rm -rf $(BUILD) ridge
help:                ## print this
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile gpu/gpu.mk | expand -t 12

-include $(MPI_OBJ:.o=.d)
-include $(OBJ:.o=.d) $(UNITOBJ:.o=.d) $(HOSTOBJ:.o=.d) $(CTESTS:%.c=$(BUILD)/obj/%.d)
