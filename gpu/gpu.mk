# SPDX-License-Identifier: MIT
#
# The GPU's kernels: built by nvcc, built for the simulator, checked without running.
#
# A library of its own, where nvcc is found: on the PATH, in CUDA_HOME or in its usual place.  The
# same sources once more, by the C++ compiler against tests/sim, are what the tests run.
NVCC    := $(firstword $(wildcard $(CUDA_HOME)/bin/nvcc) $(shell command -v nvcc) \
             $(wildcard /usr/local/cuda/bin/nvcc))
CUDA    := $(patsubst %/bin/nvcc,%,$(NVCC))
GPU_ARCH ?= 80 90
KERNELS := $(sort $(wildcard gpu/*.cu gpu/*/*.cu))
GPU_GENERATED := $(BUILD)/gen/fused_text.inc
GPU_INC := -Igpu/c -Icore -I. -I$(BUILD)/gen
GPU_DEP := $(wildcard gpu/*.cuh gpu/*.h gpu/*/*.h gpu/*/*.cuh core/base/*.h core/tensor/*.h \
             core/op/*.h core/ridge/*.h) \
           $(GPU_GENERATED)
SIM     := $(sort $(wildcard tests/sim/cudasim*.cpp tests/sim/fakecuda*.cpp \
             tests/sim/fakeblas*.cpp))
GPU_GEN := $(foreach a,$(GPU_ARCH),-gencode arch=compute_$(a),code=sm_$(a)) \
           -gencode arch=compute_$(lastword $(GPU_ARCH)),code=compute_$(lastword $(GPU_ARCH))

# In these a product and a sum stay two roundings, so that the bits do not depend on what else a
# compiler sees beside them: numbers drawn are the CPU's own, and those of arange (copy), a chain of
# functions gives what the functions give one by one.  (The vendor's exp and the like are written with fused ones either way.)
UNFUSED := random elementwise fused parts copy
fused    = $(if $(filter $(UNFUSED),$(basename $(notdir $(1)))),,-ffp-contract=fast)
unfused  = $(if $(filter $(UNFUSED),$(basename $(notdir $(1)))),-fmad=false)

# what kernels of chains are compiled with at run time: these files as one string, in their order
$(BUILD)/gen/fused_text.inc: core/op/formulas.h gpu/fused/data.h gpu/fused/memory.h
	@mkdir -p $(@D)
	@sed -e 's/[\\"]/\\&/g' -e 's/.*/"&\\n"/' $^ >$@.new && mv $@.new $@
# Files without kernels are C++ as they stand: nvcc would compile them for the host as its compiler
# does, after going through them three times for kernels.  A kernel in one of them does not compile.
PLAIN   := cache nvml range blas/blas blas/tuned cupti/activity cupti/library cupti/occupancy \
             cupti/records dnn/attention dnn/conv dnn/graph dnn/heads dnn/image dnn/library \
             dnn/plan dnn/run fused/compiler fused/kernel_cache nccl/library
NVCC_PLAIN = $(NVCC) -x c++ -std=c++17 -O3 -include cuda_runtime.h \
             -Xcompiler -fPIC,-fvisibility=hidden,-Werror=attributes $(GPU_INC) -c -o $@ $<
$(PLAIN:%=$(BUILD)/obj/nvcc/%.o): $(BUILD)/obj/nvcc/%.o: gpu/%.cu $(GPU_DEP)
	@mkdir -p $(@D)
	$(call show,nvcc $<)$(NVCC_PLAIN)
$(BUILD)/obj/nvcc/%.o: gpu/%.cu $(GPU_DEP)
	@mkdir -p $(@D)
	$(call show,nvcc $<)$(NVCC) -std=c++17 -O3 $(call unfused,$@) $(GPU_GEN) \
	  -Xcompiler -fPIC,-fvisibility=hidden $(GPU_INC) -c -o $@ $<
$(BUILD)/libridge_gpu.so: $(KERNELS:gpu/%.cu=$(BUILD)/obj/nvcc/%.o)
	$(call show,ld $@)$(NVCC) -shared -cudart static -o $@ $^ -L$(CUDA)/lib64 \
	  -lcublasLt -Xlinker -rpath=$(CUDA)/lib64
# The kernels on the simulator, once for each way of watching them: plainly, under sanitizers,
# counting lines.  The simulator's own objects are the same in all of them, never instrumented.
# (-g1: the lines of a sanitizer's report; all of -g takes a third more time to compile.)
SIM_FLAGS := -std=c++17 -g1 -Wall -Wextra -Wno-unknown-pragmas -ffp-contract=off -fPIC \
             -fvisibility=hidden $(GPU_INC) -Igpu -I$(CUDA)/include
SIM_WAYS  := sim simfma simasan simtsan simcov
SIM_DEP   := $(wildcard tests/sim/*.h)
SIM_sim     := -O2 $(EXTRA)
# products and sums joined, where nvcc joins them
SIM_simfma  := -O2 -mfma $(EXTRA)
SIM_simasan := -O1 -fno-omit-frame-pointer -fsanitize=address,undefined \
               -fno-sanitize-recover=undefined
SIM_simtsan := -O1 -fno-omit-frame-pointer -fsanitize=thread
SIM_simcov  := -O0 --coverage
# What every kernel includes first takes longer to read than small ones to compile: it is read once
# for each way.  (Where what was kept does not fit, the file beside it includes the header itself.)
SIM_KEPT  := sim simasan simtsan
SIM_HEAD   = $(if $(filter $(1),$(SIM_KEPT)),$(BUILD)/obj/$(1)/head,tests/sim)/cudasim.h
SIMOBJ    := $(SIM:tests/sim/%.cpp=$(BUILD)/obj/simulator/%.o)
HOOK      := # one more source, which scripts/mutate counts with
SIMTEST   := test_sim test_sim_main test_sim_work test_sim_tensor test_sim_mma
$(BUILD)/obj/simulator/%.o: tests/sim/%.cpp $(SIM_DEP)
	@mkdir -p $(@D)
	$(call show,sim $<)$(CXX) $(SIM_FLAGS) -O2 -c -o $@ $<
define SIM_RULES
$(BUILD)/obj/$(1)/head/cudasim.h: $(SIM_DEP)
	@mkdir -p $$(@D) && rm -f $$@.gch
	@echo '#include "tests/sim/cudasim.h"' >$$@
	$$(call show,$(1) $$(@F))$(CXX) $(SIM_FLAGS) $(SIM_$(1)) -x c++-header -o $$@.gch $$@
$(BUILD)/obj/$(1)/%.o: gpu/%.cu $(GPU_DEP) $(SIM_DEP) $(SIM_HEAD)
	@mkdir -p $$(@D)
	$$(call show,$(1) $$<)$(CXX) $(SIM_FLAGS) $(SIM_$(1)) $(if $(filter simfma,$(1)),$$(call fused,$$@)) \
	  -x c++ -include $(SIM_HEAD) -c -o $$@ $$<
$(BUILD)/obj/$(1)/%.o: tests/sim/%.cu gpu/launch.cuh $(SIM_DEP) $(SIM_HEAD)
	@mkdir -p $$(@D)
	$$(call show,$(1) $$<)$(CXX) $(SIM_FLAGS) $(SIM_$(1)) -x c++ -include $(SIM_HEAD) -c -o $$@ $$<
$(BUILD)/obj/$(1)/%.o: tests/sim/%.cpp gpu/svd_pairs.cuh $(SIM_DEP)
	@mkdir -p $$(@D)
	$$(call show,$(1) $$<)$(CXX) $(SIM_FLAGS) $(SIM_$(1)) -c -o $$@ $$<
$(BUILD)/libridge_gpu$(1).so: $(KERNELS:gpu/%.cu=$(BUILD)/obj/$(1)/%.o) $(SIMOBJ)
	$$(call show,ld $$@)$(CXX) -shared $(SIM_$(1)) -o $$@ $$^ -lpthread
$(BUILD)/tests/test_$(1): $(SIMTEST:%=$(BUILD)/obj/$(1)/%.o) $(HOOK:gpu/%.cu=$(BUILD)/obj/$(1)/%.o) \
  $(SIMOBJ)
	@mkdir -p $$(@D)
	@$(CXX) $(SIM_$(1)) -o $$@ $$^ -lpthread
endef
$(foreach w,$(SIM_WAYS),$(eval $(call SIM_RULES,$(w))))
.PHONY: gpu
gpu: $(BUILD)/libridge_gpu.so  ## build the GPU's kernels with nvcc
# the plugin for the last of the architectures alone, or another: CHECK_ARCH=80; what ptxas says of
# every kernel, and the intermediate code, stay beside the objects; profilers find source lines in it
CHECK_ARCH ?= $(lastword $(GPU_ARCH))
PTX     := $(BUILD)/obj/ptx$(CHECK_ARCH)
$(PLAIN:%=$(PTX)/%.o): $(PTX)/%.o: gpu/%.cu $(GPU_DEP)
	@mkdir -p $(@D)
	$(call show,nvcc $(CHECK_ARCH) $<)$(NVCC_PLAIN)
$(PTX)/%.o: gpu/%.cu $(GPU_DEP)
	@mkdir -p $(@D) $(@:.o=.keep)
	$(call show,nvcc $(CHECK_ARCH) $<)$(NVCC) -std=c++17 -O3 $(call unfused,$@) \
	  -gencode arch=compute_$(CHECK_ARCH),code=sm_$(CHECK_ARCH) -lineinfo -Xptxas -v --keep \
	  --keep-dir $(@:.o=.keep) -Xcompiler -fPIC,-fvisibility=hidden $(GPU_INC) -c -o $@ $< \
	  2>$(@:.o=.log) || { cat $(@:.o=.log); exit 1; }
	@mv $(@:.o=.keep)/*.ptx $(@:.o=.ptx) && rm -r $(@:.o=.keep)
$(PTX)/libridge_gpu.so: $(KERNELS:gpu/%.cu=$(PTX)/%.o)
	$(call show,ld $@)$(NVCC) -shared -cudart static -o $@ $^ -L$(CUDA)/lib64 \
	  -lcublasLt -Xlinker -rpath=$(CUDA)/lib64
.PHONY: check-gpu
check-gpu: all $(if $(NVCC),$(PTX)/libridge_gpu.so)  ## spills of kernels, loading them
	@luajit scripts/gpu/kernels.lua $(if $(NVCC),$(PTX) $(BUILD))
	$(if $(NVCC),@RIDGE_TEST_PLUGIN=$(PTX)/libridge_gpu.so scripts/run_tests tests/lua/plugin_spec.lua)
# the stand-in for CUPTI, a library of its own as that is: opened by its name, it finds the simulator
$(BUILD)/libfakecupti.so: tests/sim/fakecupti.cpp $(SIM_DEP)
	@mkdir -p $(@D)
	$(call show,ld $@)$(CXX) -std=c++17 -O1 -g1 -Wall -Wextra -fPIC -shared -I$(CUDA)/include \
	  -o $@ $< -ldl -lpthread
# the one for NCCL: ranks are processes, and their collectives work of the simulator's
$(BUILD)/libfakenccl.so: tests/sim/fakenccl.cpp $(SIM_DEP)
	@mkdir -p $(@D)
	$(call show,ld $@)$(CXX) -std=c++17 -O1 -g1 -Wall -Wextra -fPIC -shared -I$(CUDA)/include \
	  -o $@ $< -ldl -lpthread
# products by cublasLt, and what is kept of them, with all of the plugin
$(BUILD)/tests/test_blas $(BUILD)/tests/test_kept: $(BUILD)/tests/%: $(BUILD)/obj/sim/%.o \
  $(KERNELS:gpu/%.cu=$(BUILD)/obj/sim/%.o) $(SIMOBJ)
	@mkdir -p $(@D)
	@$(CXX) $(EXTRA) -o $@ $^ -lpthread
# cuDNN's graphs, planned for a described device: ridge's own sources of them, without a simulator
DNN     := $(addprefix gpu/dnn/,library.cu graph.cu plan.cu conv.cu attention.cu) \
           gpu/fused/compiler.cu
$(BUILD)/tests/test_dnn: tests/gpu/test_dnn.cpp $(DNN) $(HOOK) $(GPU_DEP)
	@mkdir -p $(@D)
	$(call show,cxx $@)$(CXX) -std=c++17 -O1 -g -Wall -Wextra $(EXTRA) $(GPU_INC) -I$(CUDA)/include \
	  -DCUDA_STUB='"$(CUDA)/lib64/stubs/libcuda.so"' -o $@ -x c++ $< $(DNN) $(HOOK) -ldl
# chains as text, compiled by NVRTC
$(BUILD)/tests/test_fused: tests/gpu/test_fused.cpp gpu/fused/text.cu gpu/fused/compiler.cu $(HOOK) \
  $(GPU_DEP)
	@mkdir -p $(@D)
	$(call show,cxx $@)$(CXX) -std=c++17 -O1 -g -Wall -Wextra $(EXTRA) $(GPU_INC) -I$(CUDA)/include \
	  -Wl,-rpath,$(CUDA)/lib64 -o $@ -x c++ $(filter %.cpp %.cu,$^) -ldl
# divisions by multiplication
$(BUILD)/tests/test_divide: tests/gpu/test_divide.cpp gpu/divide.cuh
	@mkdir -p $(@D)
	$(call show,cxx $@)$(CXX) -std=c++17 -O1 -g -Wall -Wextra $(EXTRA) -I. -o $@ $<
# every operation on it: in three orders, under sanitizers; each with the simulator's own tests,
# which plant what has to be found.  (`make nightly` leaves no sample out.)
SIM_TRIED := tsan/20 asan/3 rev rand:3/6 ahead:rev/5 test
.PHONY: test-gpusim test-gpusim-builds gpu-archs
test-gpusim-builds: all $(foreach w,sim simasan simtsan,$(BUILD)/libridge_gpu$w.so \
  $(BUILD)/tests/test_$w) $(BUILD)/libfakecupti.so $(BUILD)/libfakenccl.so $(addprefix $(BUILD)/tests/test_,blas kept dnn fused divide)
test-gpusim: test-gpusim-builds  ## run the simulated GPU
	@scripts/gpu/sim.sh $(SIM_TRIED)
# ridge for a machine without packages; a path of the older kind holds for its libraries' needs too
$(BUILD)/ridge_bundled: $(OBJ) $(HOSTOBJ)
	$(call show,ld $@)$(CC) -fopenmp $(EXTRA) -rdynamic -o $@ $^ -lluajit-5.1 -ledit \
	  $(subst -Wl$(comma)-rpath$(comma)$(BLAS),,$(LDLIBS)) \
	  -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/lib'
.PHONY: bundle
# the kernels for one architecture, the last of GPU_ARCH; without any where KERNELS_TOO is empty
KERNELS_TOO ?= $(NVCC)
bundle: $(BUILD)/ridge_bundled $(if $(KERNELS_TOO),$(PTX)/libridge_gpu.so)  ## what to carry, in one file
	@scripts/bundle $< $(BUILD)/bundle $(PTX)/libridge_gpu.so
.PHONY: cover-gpu
cover-gpu: all $(BUILD)/libridge_gpusimcov.so  ## print the lines of kernels that no test runs
	@scripts/gpu/cover.sh
gpu-archs:
	@echo $(GPU_ARCH)
