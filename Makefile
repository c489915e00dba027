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

CORE    := $(sort $(shell find core -name '*.c' -not -path 'core/cpu/simd/*') $(wildcard gpu/*.c))
SIMD    := $(sort $(wildcard core/cpu/simd/*.c))
HOST    := $(sort $(wildcard lua/*.c))
LUA     := $(sort $(shell find lua/ridge recipes -name '*.lua' 2>/dev/null))
HEADERS := $(sort $(wildcard core/ridge.h core/ridge/*.h))
OBJ     := $(CORE:%.c=$(BUILD)/obj/%.o) \
           $(foreach s,$(SIMDS),$(SIMD:core/cpu/simd/%.c=$(BUILD)/obj/simd/%_$(s).o))
HOSTOBJ := $(HOST:%.c=$(BUILD)/obj/%.o) $(BUILD)/obj/embedded.o
CTESTS  := $(sort $(wildcard tests/c/test_*.c))
CTESTBIN := $(CTESTS:tests/c/%.c=$(BUILD)/tests/%)
SPECS   := $(wildcard tests/op tests/lua tests/*_spec.lua)

# all processors, unless the command line says how many
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc)
endif

# each step is one short line; `make V=1` shows the commands
show = $(if $(V),,@echo "  $(1)";)

.DELETE_ON_ERROR:
.PHONY: all
all: ridge $(BUILD)/libridge.so $(BUILD)/ridge.so  ## build the ridge program and the library

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
	$(call show,cc $<)$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<
# what opens a GPU is in every build; the kernels are a library of their own
$(BUILD)/obj/gpu/%.o: gpu/%.c
	@mkdir -p $(@D)
	$(call show,cc $<)$(CC) $(CFLAGS) -I. -MMD -MP -c -o $@ $<

define SIMD_RULE
$(BUILD)/obj/simd/%_$(1).o: core/cpu/simd/%.c
	@mkdir -p $$(@D)
	$$(call show,cc $$< $(1))$(CC) $(CFLAGS) -fopenmp-simd $(SIMD_$(1)) -DRG_SIMD=$(1) -MMD -MP \
	  -c -o $$@ $$<
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
$(BUILD)/obj/core/ridge.o: CFLAGS += -I. -DRG_FLAGS='"$(OPT)"' -include $(BUILD)/git.h
$(BUILD)/obj/core/ridge.o: $(BUILD)/git.h
# every measurement says which commit measured, and whether the tree was changed since
$(BUILD)/git.h: .PHONY_git
	@mkdir -p $(@D)
	@scripts/git_facts >$@.new && { cmp -s $@.new $@ || cp $@.new $@; }; rm -f $@.new
.PHONY: .PHONY_git

$(BUILD)/libridge.so: $(OBJ) $(BUILD)/obj/lua/worker.o
	$(call show,ld $@)$(CC) -shared -fopenmp $(EXTRA) -o $@ $^ $(LDLIBS)

# -- the LuaJIT host ------------------------------------------------------------
$(BUILD)/obj/lua/%.o: lua/%.c
	@mkdir -p $(@D)
	$(call show,cc $<)$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<
$(BUILD)/embedded.c: scripts/embed.lua $(LUA) $(sort $(dir $(LUA)))
	@luajit scripts/embed.lua lua recipes > $@
$(BUILD)/obj/embedded.o: $(BUILD)/embedded.c
	@$(CC) $(CFLAGS) -Wno-overlength-strings -c -o $@ $<
$(BUILD)/ridge: $(OBJ) $(HOSTOBJ)
	$(call show,ld $@)$(CC) -fopenmp $(EXTRA) -rdynamic -o $@ $^ -lluajit-5.1 -ledit $(LDLIBS)
ridge: $(BUILD)/ridge
	@ln -sf $(BUILD)/ridge ridge
# core and sources as a Lua module, for plain luajit: neither prompt nor signals
MODULEOBJ := $(BUILD)/obj/lua/embed.o $(BUILD)/obj/lua/terminal.o $(BUILD)/obj/lua/worker.o \
  $(BUILD)/obj/embedded.o
$(BUILD)/ridge.so: $(OBJ) $(MODULEOBJ)
	$(call show,ld $@)$(CC) -shared -fopenmp $(EXTRA) -o $@ $^ $(LDLIBS)

# -- the GPU's kernels ------------------------------------------------------------
# A library of its own, where nvcc is found: on the PATH, in CUDA_HOME or in its usual place.  The
# same sources once more, by the C++ compiler against tests/sim, are what the tests run.
NVCC    := $(firstword $(wildcard $(CUDA_HOME)/bin/nvcc) $(shell command -v nvcc) \
             $(wildcard /usr/local/cuda/bin/nvcc))
CUDA    := $(patsubst %/bin/nvcc,%,$(NVCC))
GPU_ARCH ?= 80 90
KERNELS := $(sort $(wildcard gpu/*.cu))
GPU_INC := -Igpu/c -Icore -I.
GPU_DEP := $(wildcard gpu/*.cuh gpu/*.h gpu/c/*.h core/op/*.h core/ridge/*.h)
SIM     := $(sort $(wildcard tests/sim/cudasim*.cpp tests/sim/fakecuda*.cpp \
             tests/sim/fakeblas*.cpp))
GPU_GEN := $(foreach a,$(GPU_ARCH),-gencode arch=compute_$(a),code=sm_$(a)) \
           -gencode arch=compute_$(lastword $(GPU_ARCH)),code=compute_$(lastword $(GPU_ARCH))

$(BUILD)/obj/nvcc/%.o: gpu/%.cu $(GPU_DEP)
	@mkdir -p $(@D)
	$(call show,nvcc $<)$(NVCC) -std=c++17 -O3 $(if $(filter %/random.o,$@),-fmad=false) $(GPU_GEN) \
	  -Xcompiler -fPIC,-fvisibility=hidden $(GPU_INC) -c -o $@ $<
$(BUILD)/libridge_gpu.so: $(KERNELS:gpu/%.cu=$(BUILD)/obj/nvcc/%.o)
	$(call show,ld $@)$(NVCC) -shared -cudart static -o $@ $^ -L$(CUDA)/lib64 \
	  -lcublasLt -Xlinker -rpath=$(CUDA)/lib64
# The kernels on the simulator, once for each way of watching them: plainly, under sanitizers,
# counting lines.  The simulator's own objects are the same in all of them, never instrumented.
SIM_FLAGS := -std=c++17 -g -Wall -Wextra -Wno-unknown-pragmas -ffp-contract=off -fPIC \
             -fvisibility=hidden $(GPU_INC) -Igpu -I$(CUDA)/include
SIM_WAYS  := sim simasan simtsan simcov
SIM_DEP   := $(wildcard tests/sim/*.h)
SIM_sim     := -O2 $(EXTRA)
SIM_simasan := -O1 -fno-omit-frame-pointer -fsanitize=address,undefined \
               -fno-sanitize-recover=undefined
SIM_simtsan := -O1 -fno-omit-frame-pointer -fsanitize=thread
SIM_simcov  := -O0 --coverage
SIMOBJ    := $(SIM:tests/sim/%.cpp=$(BUILD)/obj/simulator/%.o)
SIMTEST   := test_sim test_sim_main test_sim_work test_sim_tensor test_sim_mma
$(BUILD)/obj/simulator/%.o: tests/sim/%.cpp $(SIM_DEP)
	@mkdir -p $(@D)
	$(call show,sim $<)$(CXX) $(SIM_FLAGS) -O2 -c -o $@ $<
define SIM_RULES
$(BUILD)/obj/$(1)/%.o: gpu/%.cu $(GPU_DEP) $(SIM_DEP)
	@mkdir -p $$(@D)
	$$(call show,$(1) $$<)$(CXX) $(SIM_FLAGS) $(SIM_$(1)) -x c++ -include tests/sim/cudasim.h \
	  -c -o $$@ $$<
$(BUILD)/obj/$(1)/%.o: tests/sim/%.cu gpu/launch.cuh $(SIM_DEP)
	@mkdir -p $$(@D)
	$$(call show,$(1) $$<)$(CXX) $(SIM_FLAGS) $(SIM_$(1)) -x c++ -include tests/sim/cudasim.h \
	  -c -o $$@ $$<
$(BUILD)/obj/$(1)/%.o: tests/sim/%.cpp $(SIM_DEP)
	@mkdir -p $$(@D)
	$$(call show,$(1) $$<)$(CXX) $(SIM_FLAGS) $(SIM_$(1)) -c -o $$@ $$<
$(BUILD)/libridge_gpu$(1).so: $(KERNELS:gpu/%.cu=$(BUILD)/obj/$(1)/%.o) $(SIMOBJ)
	$$(call show,ld $$@)$(CXX) -shared $(SIM_$(1)) -o $$@ $$^ -lpthread
$(BUILD)/tests/test_$(1): $(SIMTEST:%=$(BUILD)/obj/$(1)/%.o) $(SIMOBJ)
	@mkdir -p $$(@D)
	@$(CXX) $(SIM_$(1)) -o $$@ $$^ -lpthread
endef
$(foreach w,$(SIM_WAYS),$(eval $(call SIM_RULES,$(w))))
.PHONY: gpu
gpu: $(BUILD)/libridge_gpu.so  ## build the GPU's kernels with nvcc
# what ptxas says of every kernel, for the last of the architectures; another: CHECK_ARCH=80
CHECK_ARCH ?= $(lastword $(GPU_ARCH))
PTX     := $(BUILD)/obj/ptx$(CHECK_ARCH)
$(PTX)/%.ptx: gpu/%.cu $(GPU_DEP)
	@mkdir -p $(@D)
	$(call show,ptx $<)$(NVCC) -std=c++17 -O3 $(if $(filter %/random.ptx,$@),-fmad=false) \
	  -arch=compute_$(CHECK_ARCH) $(GPU_INC) -ptx -o $@ $<
$(PTX)/%.log: $(PTX)/%.ptx
	@$(CUDA)/bin/ptxas -v -O3 -arch=sm_$(CHECK_ARCH) -o $(@:.log=.cubin) $< 2>$@ || { cat $@; exit 1; }
.PHONY: check-gpu
check-gpu: $(if $(NVCC),$(foreach x,ptx log,$(KERNELS:gpu/%.cu=$(PTX)/%.$x)))  ## spills of kernels
	@luajit scripts/gpu/kernels.lua $(if $(NVCC),$(PTX))
# products by cublasLt, with all of the plugin
$(BUILD)/tests/test_blas: $(KERNELS:gpu/%.cu=$(BUILD)/obj/sim/%.o) $(SIMOBJ) \
  $(BUILD)/obj/sim/test_blas.o
	@mkdir -p $(@D)
	@$(CXX) $(EXTRA) -o $@ $^ -lpthread
# cuDNN's graphs, planned for a described device: ridge's own sources of them, without a simulator
DNN     := $(addprefix gpu/dnn_,library.cu graph.cu plan.cu conv.cu attention.cu)
$(BUILD)/tests/test_dnn: tests/gpu/test_dnn.cpp $(DNN) $(GPU_DEP)
	@mkdir -p $(@D)
	$(call show,cxx $@)$(CXX) -std=c++17 -O1 -g -Wall -Wextra $(EXTRA) $(GPU_INC) -I$(CUDA)/include \
	  -DCUDA_STUB='"$(CUDA)/lib64/stubs/libcuda.so"' -o $@ -x c++ $< $(DNN) -ldl
# every operation on it: in three orders, under sanitizers; each with the simulator's own tests,
# which plant what has to be found
.PHONY: test-gpusim test-gpusim-builds gpu-archs
test-gpusim-builds: all $(foreach w,sim simasan simtsan,$(BUILD)/libridge_gpu$w.so \
  $(BUILD)/tests/test_$w) $(BUILD)/tests/test_blas $(BUILD)/tests/test_dnn
test-gpusim: test-gpusim-builds  ## run the simulated GPU
	@scripts/gpu/sim.sh asan tsan:20 rev rand:3 ahead:rev test
# ridge for a machine without packages; a path of the older kind holds for its libraries' needs too
$(BUILD)/ridge_bundled: $(OBJ) $(HOSTOBJ)
	$(call show,ld $@)$(CC) -fopenmp $(EXTRA) -rdynamic -o $@ $^ -lluajit-5.1 -ledit \
	  $(subst -Wl$(comma)-rpath$(comma)$(BLAS),,$(LDLIBS)) \
	  -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/lib'
.PHONY: bundle
bundle: $(BUILD)/ridge_bundled  ## a folder to carry: ridge, its libraries, the GPU's kernels
	@scripts/bundle $< $(BUILD)/bundle
.PHONY: cover-gpu
cover-gpu: all $(BUILD)/libridge_gpusimcov.so  ## print the lines of kernels that no test runs
	@scripts/gpu/cover.sh
gpu-archs:
	@echo $(GPU_ARCH)

# -- tests ------------------------------------------------------------------------
$(BUILD)/obj/tests/%.o: tests/%.c
	@mkdir -p $(@D)
	$(call show,cc $<)$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<
$(BUILD)/tests/%: $(BUILD)/obj/tests/c/%.o $(OBJ)
	@mkdir -p $(@D)
	@$(CC) -fopenmp $(EXTRA) -o $@ $^ $(LDLIBS)

.PHONY: demo gallery test test-c test-op test-lua check format
demo: all            ## draw this machine's performance landscape, in about five minutes
	./ridge recipes/landscape.lua
gallery: all         ## one picture of every kind, from sweeps measured for it
	./ridge recipes/gallery.lua --out results/kept/gallery
test: all test-programs $(if $(NVCC),$(BUILD)/libridge_gpusim.so)  ## run every test
	@scripts/run_tests $(CTESTBIN) $(SPECS)
	$(if $(NVCC),@$(MAKE) --no-print-directory test-gpusim)
test-c: test-programs          ## run the C tests
	@scripts/run_tests $(CTESTBIN)
test-op: all         ## run the operations against the slow reference
	@scripts/run_tests tests/op
test-lua: all        ## run the Lua specs
	@scripts/run_tests tests/lua
.PHONY: test-programs
test-programs: $(CTESTBIN)

check: all strict    ## run what is not a test: layers, exports, docs, map, size, text, format, lint
	@scripts/deps lint
	@scripts/run_tests tests/check
	@CC='$(CC)' luajit scripts/check/run.lua
.PHONY: strict objects
strict:              ## compile everything once more with each warning an error
	@$(MAKE) -s BUILD=build/strict WERROR=-Werror objects
objects: $(OBJ) $(HOSTOBJ) $(CTESTS:%.c=$(BUILD)/obj/%.o)
format:              ## let clang-format write the C files
	@scripts/deps lint
	@luajit scripts/check/format.lua --write

# -- long runs, each with a build folder of its own --------------------------------
.PHONY: nightly asan ubsan tsan memcheck cover
nightly:             ## run all of the next four, kill runs, fuzzing; keeps results/nightly.md
	@scripts/nightly.sh
asan:                ## run every test under AddressSanitizer
ubsan:               ## run every test under UndefinedBehaviorSanitizer
tsan:                ## run the C tests under ThreadSanitizer
memcheck:            ## let the n-th allocation fail, for all n, over the C tests
asan ubsan tsan memcheck:
	@scripts/nightly.sh $@
cover:               ## print what no test reaches
	@scripts/cover.sh

.PHONY: clean help
clean:               ## remove what was built
	rm -rf $(BUILD) ridge
help:                ## print this
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 12

-include $(OBJ:.o=.d) $(HOSTOBJ:.o=.d) $(CTESTS:%.c=$(BUILD)/obj/%.d)
