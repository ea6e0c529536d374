# LoCal.  `make help` lists the targets, `make doctor` says what this machine can do.
#
# One op is three files, and the file's extension is its backend:  kernels/softmax.h    contract
#   kernels/softmax.cpp  cpu    g++, SIMD by Highway                kernels/softmax.cu   cuda by nvcc; sim by g++ on kernels/sim
MODE  ?= release
ARCHS ?= 80 86 89 90
CXX   := $(if $(filter default,$(origin CXX)),$(if $(filter release debug,$(MODE)),g++,clang++),$(CXX))#  clang++ compiles sanitizers twice as fast
OPENCV ?= $(shell pkg-config --exists opencv4 2>/dev/null && echo 1)#  empty: without it, and without its image formats
NVCC  ?= $(firstword $(shell command -v nvcc) $(wildcard /usr/local/cuda/bin/nvcc))
JOBS  ?= $(shell nproc 2>/dev/null || echo 2)
-include config.mk                        # local overrides (NVCC=, OPENCV=, ARCHS=, CXX=); never committed
MAKEFLAGS += $(if $(filter 0,$(MAKELEVEL)),-j$(JOBS))#  as many at once as there are cores; -j on the command line wins

# ---- what is built where: a directory per set of flags, so that nothing stale is ever linked -------------------------
CUDA    := $(if $(NVCC),$(shell $(NVCC) --dryrun -c none.cu 2>&1 | sed -n 's/^\#$$ TOP=//p'))
NVLIBS  := third_party/cuda-libs
CUBLAS  := $(if $(NVCC),$(firstword $(wildcard $(CUDA)/include/cublas_v2.h $(NVLIBS)/cublas/include/cublas_v2.h)))
CUTLASS := $(if $(NVCC),$(wildcard $(NVLIBS)/cutlass/include/cutlass/cutlass.h))
space   := $(subst ,, )
comma   := ,
B       := build/$(MODE)$(if $(LINES),-lines)
archs   := $(subst $(space),-,$(ARCHS))
L       := $B/$(if $(NVCC),cuda$(if $(filter-out 80-86-89-90,$(archs)),-$(archs)),cpu)#     linked programs, with or without CUDA
CB      := build/cuda-$(archs)
GB      := $(CB)$(if $(CUBLAS),-cublas)$(if $(CUTLASS),-cutlass)#     gemm, which alone knows NVIDIA's libraries
PB      := build/ptx

# ---- flags ------------------------------------------------------------------------------------------------------------
WARN     := -Wall -Wextra -Werror -Wno-unknown-pragmas -Wno-psabi
# A binary holds every SIMD level and takes the best when it runs; sanitizers watch two of them, which halves their build.
HWY      := -DHWY_DISABLED_TARGETS='(HWY_SSSE3|HWY_AVX3_DL$(if $(filter release debug,$(MODE)),,|HWY_AVX3|HWY_SSE4))' -DHWY_COMPILE_ALL_ATTAINABLE
# LINES=1: lines for reports and profiles, a third more time to build.  g++ 12 and binutils disagree about DWARF 5: findings would name the wrong file.
DEBUG    := -g1 -gdwarf-4
FLAGS_release := -O3
FLAGS_debug   := -O0 -g -gdwarf-4
FLAGS_asan    := -O2 -fsanitize=address -fno-omit-frame-pointer
FLAGS_ubsan   := -O1 -fsanitize=undefined -fno-sanitize-recover=all
FLAGS_tsan    := -O1 -fsanitize=thread
# -MD and not -MMD: a file that Highway includes again for every target counts as a system header, and so does what it includes.
COMMON   := -std=c++20 -I. -MD -MP -fopenmp -ffp-contract=off $(HWY) -DLC_HAVE_OPENBLAS
CXXFLAGS := $(COMMON) $(WARN) $(if $(filter release debug,$(MODE)),,-DLC_SANITIZED) $(if $(LINES),$(DEBUG)) $(or $(FLAGS_$(MODE)),$(error MODE=$(MODE): expected release, debug, asan, ubsan or tsan))
READERS  := $(if $(filter asan,$(MODE)),-fsanitize=undefined$(comma)fuzzer-no-link -fno-sanitize-recover=all)#   what reads files is fuzzed, too
CHECKED  := $(COMMON) $(WARN) -O1 $(DEBUG) -fsanitize=thread,bounds-strict --param tsan-instrument-func-entry-exit=0
PTXCXX   := -w -fno-sanitize=bounds -ffp-contract=off -fno-strict-aliasing
# One PTX serves ptxas for 80, 86 and 89, because nvcc's front end takes longer than ptxas; PTX for the newest stays in the
# program, for GPUs to come.  -O1 is for the host's half.
virtual   = compute_$(if $(filter 86 89,$1),80,$1)
GENCODE   = $(foreach a,$(ARCHS),-gencode arch=$(call virtual,$a),code=sm_$a) $(foreach v,$(call virtual,$(lastword $(ARCHS))),-gencode arch=$v,code=$v)
NVFLAGS  := -std=c++20 -I. -O1 -lineinfo -Werror all-warnings -Xptxas --warn-on-spills,-v -Xcompiler -fopenmp -DLC_ARCHS='$(subst $(space),\$(comma),$(ARCHS))' \
            $(if $(CUBLAS),-DLC_HAVE_CUBLAS -isystem $(dir $(CUBLAS))) $(if $(CUTLASS),-DLC_HAVE_CUTLASS -isystem $(NVLIBS)/cutlass/include)
LIBS     := -lhwy -lopenblas -lz -ldl -lpthread
CUDALIBS := $(if $(NVCC),$(if $(CUBLAS),-L$(dir $(CUBLAS))../lib -L$(CUDA)/lib64 -Wl$(comma)-rpath$(comma)$(abspath $(dir $(CUBLAS))../lib) -lcublas) -L$(CUDA)/lib64 -lcudart_static -lrt)

# ---- files ------------------------------------------------------------------------------------------------------------
NVIDIA  := $(if $(CUBLAS),kernels/gemm_cublas.cu) $(if $(CUTLASS),kernels/gemm_cutlass.cu)
KERNELS := $(filter-out kernels/gemm_cublas.cu kernels/gemm_cutlass.cu,$(wildcard kernels/*.cu))
obj      = $(patsubst %,$1/%.o,$(basename $2))
CPU_OBJ := $(call obj,$B,$(wildcard kernels/*.cpp))
nv_obj   = $(foreach f,$1,$(if $(filter kernels/gemm%,$f),$(GB),$(CB))/$f.o)
CUDA_OBJ:= $(if $(NVCC),$(if $(filter release debug,$(MODE)),$(call nv_obj,$(KERNELS) $(NVIDIA))))
SIM_RT  := $(call obj,$B,$(filter-out kernels/sim/occupancy.cpp,$(wildcard kernels/sim/*.cpp)))
PROGRAMS:= localcal fashion finetune extract#   their main() is in experiments/NAME.cpp
DATA_OBJ:= $(call obj,$B,$(filter-out data/decode_opencv.cpp,$(wildcard data/*.cpp)))
LAYERS  := $(DATA_OBJ) $(call obj,$B,$(wildcard nn/*.cpp calib/*.cpp metrics/*.cpp))
COMMANDS:= $(call obj,$B,$(wildcard experiments/cmd_*.cpp))
LIB_OBJ := $(filter-out $(PROGRAMS:%=$B/experiments/%.o) $(COMMANDS),$(call obj,$B,$(wildcard experiments/*.cpp))) $(LAYERS)
sim_obj  = $(patsubst %,$B/$1/%.o,$(KERNELS)) $(if $(NVCC),$(patsubst %,$B/$1/%.ptx.o,$(KERNELS))) $(SIM_RT)

PCH      := $B/tests/precompiled.h
HARNESS  := $(call obj,$B,tests/harness.cpp tests/engines.cpp tests/test_ops.cpp $(wildcard tests/ops/*.cpp))
UNIT_SRC := $(filter-out tests/test_ops.cpp tests/test_sim.cpp tests/test_sim_%.cpp tests/test_ptx.cpp,$(wildcard tests/test_*.cpp))
# The hooks of `checked` and the fibers of `sim` are no sanitizer's friends: sanitizers watch the CPU ops, `checked` the kernels.
SIM_KIND := $(if $(filter release debug,$(MODE)),checked sim)
TESTS    := $(if $(filter tsan,$(MODE)),,$L/tests/unit) $L/tests/ops $(foreach k,$(SIM_KIND),$L/tests/ops_$k $L/tests/faults_$k $(if $(NVCC),$L/tests/ptx_$k))
PYTESTS  := $(if $(filter release,$(MODE)),$(wildcard tests/test_*.py))
FUZZERS  := $(patsubst tests/fuzz/%.cpp,$L/fuzz/%,$(wildcard tests/fuzz/*.cpp))
BENCHES  := $(patsubst tests/bench/%.cpp,$L/bench/%,$(filter-out tests/bench/peak.cpp,$(wildcard tests/bench/*.cpp)))

# ---- targets ----------------------------------------------------------------------------------------------------------
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PRECIOUS: $(PB)/%.ptx $(PB)/%.cpp
.SECONDARY: $(FUZZERS) $(call obj,$B,$(wildcard tests/fuzz/*.cpp tests/bench/*.cpp))#  kept for the next time
.PHONY: help doctor deps build demo test check bench lint format cuda cuda-archs cuda-libs resources resources-check sim-profile mutants fuzz clean
help:             ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n",$$1,$$2}' $(firstword $(MAKEFILE_LIST))
	@echo; echo "  MODE=release|debug|asan|ubsan|tsan   ARCHS='80 86 89 90'   NVCC= (build without CUDA)   OPENCV= (without OpenCV)   LINES=1 (lines in profiles and in findings of sanitizers)   JOBS=2 (compilers at once)   T='gemm.*@sim' SEED=7 SHARDS=4 (make test: some cases, other numbers, every fourth case of the ops)"
doctor:           ## what this machine has, what will build and run, and the one command that mends the rest
	@NVCC='$(NVCC)' CUDA='$(CUDA)' third_party/doctor
deps:             ## install the Debian packages that are missing (asks apt through sudo where needed)
	@third_party/install $(if $(filter release debug,$(MODE)),core,check)
build: deps       ## build/bin/localcal; finetune and extract: networks; fashion: the classifier of the demo
	@$(MAKE) --no-print-directory programs
demo: build       ## train a small classifier on Fashion-MNIST, calibrate it in nine ways and compare them (3 minutes at most)
	@build/bin/fashion --out build/demo
	@build/bin/localcal compare --cal build/demo/cal.npz --test build/demo/test.npz --methods nc,ts,ps,ir,dc,kc,ko,ln:paper,ln --out build/demo/compare
test: deps        ## every test, on every engine this machine can build (about 5 minutes after the build)
	@$(MAKE) --no-print-directory $(if $(PYTESTS),programs) tests-built
	@LC_SEED=$(or $(SEED),1) tests/run --filter '$(T)' --shards $(or $(SHARDS),1) $(TESTS) $(PYTESTS)
bench: deps       ## speed of every op against a named peer or limit, measured in one run, and beside PyTorch where that is installed (about 10 minutes)
	@$(MAKE) --no-print-directory benches
	@set -e; for b in $(BENCHES); do echo "== $$b"; $$b $(BENCHFLAGS); done
	@if python3 -c 'import torch' 2>/dev/null; then set -e; for b in tests/bench/*pytorch.py; do echo "== $$b"; python3 $$b $(BENCHFLAGS); done; \
	    else echo 'not compared with PyTorch: python3 has none (pip install torch==2.13.0)'; fi
check:            ## what CI runs beyond `make test`: lint, sanitizers, all CUDA engines, resources, mutants, fuzzing (about 15 minutes)
	@third_party/install check
	@$(MAKE) --no-print-directory lint
	@echo '== MODE=asan, without nvcc'; $(MAKE) --no-print-directory MODE=asan NVCC= SHARDS=8 test
	@echo '== MODE=tsan, CPU ops'; $(MAKE) --no-print-directory MODE=tsan NVCC= SHARDS=8 T='*@cpu' test
	@echo '== docs/adding-an-op.md'; python3 tests/try_doc.py
	@echo '== benchmarks compile'; $(MAKE) --no-print-directory benches
	@if [ -n '$(NVCC)' ]; then set -e; for t in cuda-libs cuda resources-check; do $(MAKE) --no-print-directory CUTLASS_ARCHS=80 $$t; done; else echo 'no nvcc: CUDA engines not compiled'; fi
	@$(MAKE) --no-print-directory mutants SAMPLE=12 && $(MAKE) --no-print-directory fuzz
lint:             ## formatting, dependency arrows, links and targets named in documents
	@python3 tests/lint.py
format:           ## rewrite all C++ and CUDA sources by .clang-format
	@git ls-files -co --exclude-standard '*.h' '*.cpp' '*.cu' '*.cuh' | xargs clang-format -i
cuda: deps        ## compile every .cu with nvcc for ARCHS and link (no GPU needed)
	@$(if $(NVCC),,echo 'make cuda: needs nvcc, found none; `make doctor` says what this machine has' >&2; exit 2)
	@$(MAKE) --no-print-directory programs
cuda-archs:       ## compile every .cu of ours for 75 80 86 89 90 100 120 (about 4 minutes)
	@$(MAKE) --no-print-directory ARCHS='75 80 86 89 90 100 120' cuda
cuda-libs:        ## unpack cuBLAS and CUTLASS under third_party/ where the toolkit has none
	@NVCC='$(NVCC)' CUDA='$(CUDA)' python3 third_party/cuda-libs.py
resources:        ## registers, spills, shared memory, occupancy per kernel and architecture -> kernels/RESOURCES.txt
	@$(MAKE) --no-print-directory ARCHS='80 86 89 90' RESOURCES=--output resources-run
resources-check:  ## fail on a spill or on a change of kernels/RESOURCES.txt
	@$(MAKE) --no-print-directory ARCHS='80 86 89 90' RESOURCES=--check resources-run
sim-profile: $L/tests/ops_checked   ## sectors, wavefronts and barriers per source line of one op: OP=gemm
	@CUSIM_PROFILE=1 $L/tests/ops_checked --gtest_brief=1 --gtest_filter='$(or $(OP),$(error OP=name of an op)).$(or $(CASE),*)@sim'
mutants: deps     ## break the kernels on purpose: every mutant must be caught (all: about 12 minutes; SAMPLE=12 SEED=7)
	@$(MAKE) --no-print-directory NVCC= mutants-run
fuzz:             ## every fuzz target in turn, FUZZ_SECONDS=120 in all
	@third_party/install check
	@$(MAKE) --no-print-directory MODE=asan NVCC= fuzz-run
clean:            ## remove build/
	rm -rf build

# Steps of the targets above that need another MODE or the packages first.
.PHONY: programs tests-built benches resources-run mutants-run fuzz-run
programs: $(PROGRAMS:%=$L/bin/%)
	@mkdir -p build/bin && ln -sfn $(PROGRAMS:%=../../$L/bin/%) build/bin
tests-built: $(TESTS)
	@:
benches: $(BENCHES)
	@:
resources-run: $(call nv_obj,$(KERNELS))
	@NVCC='$(NVCC)' python3 kernels/sim/resources.py $(RESOURCES) kernels/RESOURCES.txt $^
mutants-run: $L/tests/ops_checked
	@python3 tests/mutants.py $(if $(SAMPLE),--sample $(SAMPLE)) --seed $(or $(SEED),1) --compile "$(CXX) $(filter-out -MD -MP,$(CHECKED)) -x c++" \
	    --link "$(CXX) -fopenmp $(HARNESS) $B/tests/engines_sim.o $(CPU_OBJ) $(SIM_RT) %s -rdynamic -o %p -lgtest $(LIBS)" --objects $B/checked $(KERNELS)
fuzz-run: $(addsuffix .run,$(FUZZERS))
%.run: %
	@n=$(notdir $*); python3 tests/fuzz/seeds.py $$n build/corpus/$$n || exit 1; \
	    $* -max_total_time=$$(( $(or $(FUZZ_SECONDS),120) / $(words $(FUZZERS)) )) -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 build/corpus/$$n 2>build/$$n.log \
	    || { tail -30 build/$$n.log; exit 1; }; echo "== $$n"; grep -E 'number_of_executed|new_units' build/$$n.log

# ---- rules ------------------------------------------------------------------------------------------------------------
compile = @mkdir -p $(@D); echo "  $1 $<"; $2
$B/%.o: %.cpp ; $(call compile,cxx     ,$(CXX) $(CXXFLAGS) -c $< -o $@)
# What is not measured need not be optimised much, and compiles in half the time.
$B/experiments/%.o $B/tests/test_%.o $(PCH).gch: CXXFLAGS += -O0
$B/tests/test_%.o: private CXXFLAGS += -include $(PCH)
$(call obj,$B,$(wildcard tests/test_*.cpp)): $(PCH).gch
$(PCH).gch: tests/precompiled.h ; $(call compile,cxx     ,cp $< $(PCH) && $(CXX) $(CXXFLAGS) -x c++-header $< -o $@)
$B/tests/test_pca.o $B/tests/test_resnet.o $B/tests/test_simd_math.o: CXXFLAGS += $(if $(filter release,$(MODE)),-O1)
$B/tests/ops/%.o $B/tests/harness.o: CXXFLAGS += $(if $(filter release,$(MODE)),-O1)$(if $(filter asan,$(MODE)),-O0)
$(DATA_OBJ): CXXFLAGS += $(READERS)
$B/tests/fuzz/%.o: CXXFLAGS += $(READERS)
$B/sim/%.cu.o: %.cu ; $(call compile,sim     ,$(CXX) $(CXXFLAGS) -x c++ -c $< -o $@)
$B/checked/%.cu.o: %.cu ; $(call compile,checked ,$(CXX) $(CHECKED) -x c++ -c $< -o $@)
# The machine code and what ptxas says of it are kept beside the object, for `make resources`.
kept = $(@:.o=.kept)
nvcc = $(call compile,nvcc    ,rm -rf $(kept); mkdir $(kept) && { $(NVCC) $(NVFLAGS) $(GENCODE) --keep --keep-dir $(kept) -MMD -MP -c $< -o $@ 2>$(kept)/ptxas.log \
    || { cat $(kept)/ptxas.log; exit 1; }; } && find $(kept) -type f ! -name '*.cubin' ! -name '*.log' -delete)
$(CB)/%.cu.o: %.cu ; $(nvcc)
$(GB)/%.cu.o: %.cu ; $(nvcc)
# CUTLASS takes its time: where only its code is to be checked, CUTLASS_ARCHS names fewer.
$(GB)/kernels/gemm_cutlass.cu.o: ARCHS := $(or $(CUTLASS_ARCHS),$(ARCHS))
$(PB)/%.ptx: %.cu ; $(call compile,ptx     ,$(NVCC) -std=c++20 -I. -O3 -lineinfo -DLC_CUDA_NS=sim -arch=compute_80 -MMD -MP -MF $(@:.ptx=.d) -MT $@ -ptx $< -o $@)
$(PB)/%.cpp: $(PB)/%.ptx kernels/sim/ptx2cpp.py $(wildcard kernels/sim/ptx/*.py) ; $(call compile,ptx2cpp ,python3 kernels/sim/ptx2cpp.py $< $@)
$B/sim/%.cu.ptx.o: $(PB)/%.cpp ; $(call compile,cxx     ,$(CXX) $(CXXFLAGS) $(PTXCXX) -O1 -c $< -o $@)
$B/checked/%.cu.ptx.o: $(PB)/%.cpp ; $(call compile,checked ,$(CXX) $(CHECKED) $(PTXCXX) -c $< -o $@)

link = @mkdir -p $(@D); echo "  link     $@"; $(CXX) $(CXXFLAGS) $(if $(READERS),-fsanitize=undefined) $^ -rdynamic -o $@ $1 $(LIBS)
$L/bin/localcal: $(COMMANDS)
$(PROGRAMS:%=$L/bin/%): $L/bin/%: $B/experiments/%.o $(LIB_OBJ) $(CPU_OBJ) $(CUDA_OBJ) ; $(call link,$(CUDALIBS))
$L/tests/ops: $(HARNESS) $(CPU_OBJ) $(CUDA_OBJ) ; $(call link,-lgtest $(CUDALIBS))
# OpenCV only where images are read: it brings so many shared libraries that a program starts 0.3 s later.
WITH_OPENCV := $(if $(OPENCV),$L/tests/unit $(patsubst %,$L/bin/%,$(filter finetune extract,$(PROGRAMS))))
$(WITH_OPENCV): $B/data/decode_opencv.o
$(WITH_OPENCV): LIBS += -lopencv_imgcodecs -lopencv_core
# Pixels outside a palette come from memory that stb never wrote: then at least the same every time, and nobody's secret.
$B/data/decode_stb.o: CXXFLAGS += -ftrivial-auto-var-init=pattern
$B/data/decode_opencv.o: CXXFLAGS += $(patsubst -I%,-isystem %,$(shell pkg-config --cflags-only-I opencv4 2>/dev/null))
$L/tests/unit: $(call obj,$B,$(UNIT_SRC) tests/harness.cpp) $(LIB_OBJ) $(CPU_OBJ) $(CUDA_OBJ) ; $(call link,-lgtest -lgtest_main $(CUDALIBS))
define sim_programs
$L/tests/ops_$1: $(HARNESS) $B/tests/engines_sim.o $(CPU_OBJ) $(call sim_obj,$1) ; $$(call link,-lgtest)
$L/tests/faults_$1: $(call obj,$B,$(wildcard tests/test_sim.cpp tests/test_sim_*.cpp)) $B/$1/tests/sim_faults.cu.o $(if $(NVCC),$B/$1/tests/sim_faults.cu.ptx.o) $(SIM_RT) ; $$(call link,-lgtest -lgtest_main)
$L/tests/ptx_$1: $B/tests/test_ptx.o $B/$1/tests/ptx_opcodes.cu.ptx.o $(SIM_RT) ; $$(call link,-lgtest -lgtest_main)
endef
$(foreach k,sim checked,$(eval $(call sim_programs,$k)))
$L/bench/%: $B/tests/bench/%.o $B/tests/bench/peak.o $B/tests/harness.o $(call obj,$B,$(wildcard tests/ops/*.cpp)) $(LAYERS) $(CPU_OBJ) $(CUDA_OBJ) ; $(call link,-lbenchmark $(CUDALIBS))
$L/fuzz/%: $B/tests/fuzz/%.o $(DATA_OBJ) $B/kernels/random.o ; $(call link,-fsanitize=fuzzer)
-include $(shell find build -name '*.d' 2>/dev/null)
