// SPDX-License-Identifier: MIT
//
// A stand-in for NVRTC and for loading what it compiled: the text of a kernel goes to the C++
// compiler ($CXX, else c++), the machine code is a shared object of the host, opened.
// A kernel may use indexes of threads and blocks, arithmetic and conversions of half types; shared
// memory, barriers and shuffles are not there.
//
//   RG_SIM_NVRTC_LOG=file   gets a line for each text that is compiled
//   RG_SIM_NVRTC_WRONG=1    makes tanh 0, so that a test sees whether such kernels run at all
#include "cudasim.h"
#include "fakecuda.h"

#include <dlfcn.h>
#include <nvrtc.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <string>

using namespace fake;

// -- What the text finds -----------------------------------------------------------------------

// Filled in when the code is loaded.
struct Table {
  const rgsim_thread *const *self;
  const rgsim_grid *here;
  float (*of_f16)(unsigned short);
  unsigned short (*f16_of)(float);
  unsigned short (*bf16_of)(float);
};

static const char PRELUDE[] = R"(
struct u3 { unsigned x, y, z; };
struct thread { u3 index; unsigned lane; };
struct grid { u3 block_index, block, grid; };
struct table {
  const thread *const *self;
  const grid *here;
  float (*of_f16)(unsigned short);
  unsigned short (*f16_of)(float);
  unsigned short (*bf16_of)(float);
};
extern "C" { table rgsim_table; }
#define of_f16(x)  rgsim_table.of_f16(x)
#define f16_of(x)  rgsim_table.f16_of(x)
#define bf16_of(x) rgsim_table.bf16_of(x)
#define threadIdx (*rgsim_table.self)->index
#define blockIdx  rgsim_table.here->block_index
#define blockDim  rgsim_table.here->block
#define gridDim   rgsim_table.here->grid
#define __device__
#define __global__
#define __grid_constant__
#define __launch_bounds__(n)
static inline float __uint_as_float(unsigned b) { float x; __builtin_memcpy(&x, &b, 4); return x; }
static inline unsigned __float_as_uint(float x) { unsigned b; __builtin_memcpy(&b, &x, 4); return b; }
#define ONE(name) static inline float name(float x) { return __builtin_##name##f(x); }
ONE(fabs) ONE(floor) ONE(ceil) ONE(rint) ONE(sqrt) ONE(exp) ONE(log) ONE(log1p) ONE(sin) ONE(cos)
ONE(tanh) ONE(erf) ONE(trunc) ONE(exp2) ONE(expm1) ONE(log2) ONE(tan) ONE(asin) ONE(acos) ONE(atan)
ONE(sinh) ONE(cosh) ONE(asinh) ONE(acosh) ONE(atanh)
#undef ONE
static inline float exp2_of(float x) { return x < -126.0f ? 0.0f : __builtin_exp2f(x); }
static inline float reciprocal_of(float x) { return 1.0f / x; }
static inline float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
static inline float copysignf(float x, float y) { return __builtin_copysignf(x, y); }
static inline float pow(float x, float y) { return __builtin_powf(x, y); }
static inline float atan2(float x, float y) { return __builtin_atan2f(x, y); }
static inline float fmod(float x, float y) { return __builtin_fmodf(x, y); }
)";

static float of_f16(unsigned short bits)
{
  return __half2float(__ushort_as_half(bits));
}

static unsigned short f16_of(float x)
{
  return __half_as_ushort(__float2half_rn(x));
}

static unsigned short bf16_of(float x)
{
  return __bfloat16_as_ushort(__float2bfloat16_rn(x));
}

// -- Compiling ---------------------------------------------------------------------------------

struct _nvrtcProgram {
  std::string text, log, code;
};

static std::string read_all(const std::string &path)
{
  std::string all;
  char part[4096];
  FILE *file = fopen(path.c_str(), "rb");
  if (!file) return all;
  while (size_t n = fread(part, 1, sizeof(part), file))
    all.append(part, n);
  fclose(file);
  return all;
}

static bool write_all(const std::string &path, const std::string &all)
{
  FILE *file = fopen(path.c_str(), "wb");
  if (!file) return false;
  bool ok = fwrite(all.data(), 1, all.size(), file) == all.size();
  return fclose(file) == 0 && ok;
}

extern "C" {

nvrtcResult nvrtcVersion(int *major, int *minor)
{
  *major = CUDART_VERSION / 1000;
  *minor = CUDART_VERSION / 10 % 100;
  return NVRTC_SUCCESS;
}

const char *nvrtcGetErrorString(nvrtcResult result)
{
  return result == NVRTC_SUCCESS                ? "NVRTC_SUCCESS"
         : result == NVRTC_ERROR_INVALID_INPUT  ? "NVRTC_ERROR_INVALID_INPUT"
         : result == NVRTC_ERROR_COMPILATION    ? "NVRTC_ERROR_COMPILATION"
         : result == NVRTC_ERROR_INVALID_OPTION ? "NVRTC_ERROR_INVALID_OPTION"
                                                : "NVRTC_ERROR";
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *out, const char *text, const char *, int n_headers,
                               const char *const *, const char *const *)
{
  if (!out || !text || n_headers) return NVRTC_ERROR_INVALID_INPUT;
  *out = new _nvrtcProgram{ text, "", "" };
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program)
{
  delete *program;
  *program = nullptr;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int n, const char *const *options)
{
  bool two_roundings = false, target = false;
  for (int i = 0; i < n; i++) {
    const bool fmad = !strcmp(options[i], "--fmad=false");
    const bool arch = !strcmp(options[i], "--gpu-architecture=sm_90"); // the simulated device's
    if (!fmad && !arch && strcmp(options[i], "--std=c++17") != 0) return NVRTC_ERROR_INVALID_OPTION;
    two_roundings = two_roundings || fmad;
    target = target || arch;
  }
  if (!target) return NVRTC_ERROR_INVALID_OPTION;
  char folder[] = "/tmp/ridge-nvrtc-XXXXXX";
  if (!mkdtemp(folder)) return NVRTC_ERROR_INTERNAL_ERROR;
  const std::string at = folder, cxx = getenv("CXX") ? getenv("CXX") : "c++";
  if (const char *log = getenv("RG_SIM_NVRTC_LOG")) {
    if (FILE *file = fopen(log, "a")) {
      fprintf(file, "compiled %zu bytes\n", program->text.size());
      fclose(file);
    }
  }
  const std::string command = cxx + " -std=c++17 -w -O1 -fno-strict-aliasing -ffp-contract=" +
                              (two_roundings ? "off" : "fast -march=native") +
                              " -shared -fPIC -nostartfiles -o " + at + "/x.so " + at +
                              "/x.cpp -lm 2>" + at + "/log";
  const std::string wrong = getenv("RG_SIM_NVRTC_WRONG") ? "#define tanh(x) 0\n" : "";
  const bool ok =
      write_all(at + "/x.cpp", PRELUDE + wrong + program->text) && !system(command.c_str());
  program->log = read_all(at + "/log");
  program->code = ok ? read_all(at + "/x.so") : "";
  for (const char *name : { "/x.cpp", "/x.so", "/log" })
    unlink((at + name).c_str());
  rmdir(folder);
  return ok && !program->code.empty() ? NVRTC_SUCCESS : NVRTC_ERROR_COMPILATION;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *bytes)
{
  *bytes = program->log.size() + 1;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *to)
{
  memcpy(to, program->log.c_str(), program->log.size() + 1);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *bytes)
{
  *bytes = program->code.size();
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *to)
{
  memcpy(to, program->code.data(), program->code.size());
  return NVRTC_SUCCESS;
}

// -- Loading -----------------------------------------------------------------------------------

#if CUDART_VERSION >= 12080
// The code says itself how long it is: the table of sections is at its end.
cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code, cudaJitOption *, void **,
                                unsigned n_jit, cudaLibraryOption *, void **, unsigned n_options)
{
  Lock lock;
  if (broken()) return error(broken());
  if (cudaError_t e = forbid_in_capture()) return e;
  Elf64_Ehdr head;
  if (!library || !code || n_jit || n_options) return misuse(cudaErrorInvalidValue, "loading code");
  memcpy(&head, code, sizeof(head));
  if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) return error(cudaErrorInvalidKernelImage);
  const size_t bytes = head.e_shoff + static_cast<size_t>(head.e_shentsize) * head.e_shnum;
  char path[] = "/tmp/ridge-code-XXXXXX"; // dlopen knows objects by their names
  const int fd = mkstemp(path);
  if (fd < 0) return error(cudaErrorMemoryAllocation);
  void *opened = nullptr;
  if (write(fd, code, bytes) == static_cast<ssize_t>(bytes)) {
    opened = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  }
  close(fd);
  unlink(path);
  auto *table = opened ? static_cast<Table *>(dlsym(opened, "rgsim_table")) : nullptr;
  if (!table) return error(cudaErrorInvalidKernelImage);
  *table = Table{ &rgsim_self, &rgsim_here, of_f16, f16_of, bf16_of };
  *library = reinterpret_cast<cudaLibrary_t>(opened);
  return cudaSuccess;
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name)
{
  Lock lock;
  void *found = dlsym(reinterpret_cast<void *>(library), name);
  if (!found) return error(cudaErrorSymbolNotFound);
  *kernel = reinterpret_cast<cudaKernel_t>(found);
  return cudaSuccess;
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library)
{
  Lock lock;
  dlclose(reinterpret_cast<void *>(library));
  return cudaSuccess;
}
#endif

} // extern "C"
