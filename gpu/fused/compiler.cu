/* SPDX-License-Identifier: MIT */
/*
** Opening and calling NVRTC.  Nothing links it: it is looked for by name when the first chain could
** use it, so that ridge runs where it is not installed and pays nothing where no plan has a chain.
**
** RIDGE_NVRTC names another file, or is `none`.  The simulator of the tests has no machine code:
** there it is never opened, and `simulated` means a stand-in that asks the C++ compiler.
*/
#include "gpu/fused/compiler.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <mutex>

static char note[512];

#if !RG_HAS_COMPILER

const char *rg_compiler_note(void)
{
  return "not used: the GPU's kernels were built without NVRTC's headers";
}

int32_t rg_compiler_version(bool)
{
  return 0;
}

bool rg_compile(const char *, int32_t, char **, size_t *, char *why, size_t room)
{
  (void)snprintf(why, room, "%s", rg_compiler_note());
  return false;
}

#else

#include <nvrtc.h>

#define FUNCTIONS(F)   \
  F(Version)           \
  F(CreateProgram)     \
  F(CompileProgram)    \
  F(GetCUBINSize)      \
  F(GetCUBIN)          \
  F(GetProgramLogSize) \
  F(GetProgramLog)     \
  F(DestroyProgram)    \
  F(GetErrorString)

struct compiler {
#define MEMBER(name) decltype(&::nvrtc##name) name;
  FUNCTIONS(MEMBER)
#undef MEMBER
  int32_t version;
};

static std::once_flag once;
static compiler nvrtc;
static std::atomic<bool> is_open;

/* -- Opening ----------------------------------------------------------------------------------- */

/* The functions by name; the first that is not there, or NULL. */
static const char *fill(void *from)
{
#ifdef RG_SIM
  (void)from;
#define FILL(name) nvrtc.name = ::nvrtc##name;
#else
#define FILL(name)                                                          \
  nvrtc.name = (decltype(nvrtc.name))(uintptr_t)dlsym(from, "nvrtc" #name); \
  if (nvrtc.name == NULL) {                                                 \
    return "nvrtc" #name;                                                   \
  }
#endif
  FUNCTIONS(FILL)
#undef FILL
  return NULL;
}

/* The library; NULL where there is none, and note says why. */
static void *find(const char *name)
{
#ifdef RG_SIM
  if (name != NULL && strcmp(name, "simulated") == 0) {
    return &nvrtc;
  }
  (void)snprintf(note, sizeof(note), "not used: the simulated device has no machine code");
  return NULL;
#else
  /* the same major version as the runtime's first: a driver for that one loads what it makes */
  char own[32];
  void *from;

  (void)snprintf(own, sizeof(own), "libnvrtc.so.%d", CUDART_VERSION / 1000);
  from = dlopen(name != NULL ? name : own, RTLD_NOW | RTLD_LOCAL);
  if (from == NULL) {
    (void)snprintf(note, sizeof(note), "not used: %s", dlerror());
  }
  return from;
#endif
}

static void open_once(void)
{
  const char *given = getenv("RIDGE_NVRTC");
  const char *name = given != NULL && given[0] != '\0' ? given : NULL;
  const char *lacks;
  int major = 0;
  int minor = 0;
  void *from;

  if (name != NULL && strcmp(name, "none") == 0) {
    (void)snprintf(note, sizeof(note), "not used: RIDGE_NVRTC says none");
    return;
  }
  from = find(name);
  if (from == NULL) {
    return;
  }
  lacks = fill(from);
  if (lacks != NULL) {
    (void)snprintf(note, sizeof(note), "not used: it has no function %s", lacks);
    return;
  }
  if (nvrtc.Version(&major, &minor) != NVRTC_SUCCESS) {
    (void)snprintf(note, sizeof(note), "not used: it does not report its version");
    return;
  }
  nvrtc.version = 1000 * major + 10 * minor;
  (void)snprintf(note, sizeof(note), "%d.%d", major, minor);
  is_open = true;
}

const char *rg_compiler_note(void)
{
  std::call_once(once, open_once);
  return note;
}

int32_t rg_compiler_version(bool open)
{
  if (open) {
    (void)rg_compiler_note();
  }
  return is_open ? nvrtc.version : 0;
}

/* -- Compiling --------------------------------------------------------------------------------- */

/* The end of what the compiler said, in one line. */
static void explain(nvrtcProgram program, nvrtcResult result, char *why, size_t room)
{
  size_t n = 0;
  char *log = NULL;

  (void)snprintf(why, room, "%s", nvrtc.GetErrorString(result));
  if (nvrtc.GetProgramLogSize(program, &n) == NVRTC_SUCCESS && n > 1) {
    log = (char *)calloc(n + 1, 1);
  }
  if (log != NULL && nvrtc.GetProgramLog(program, log) == NVRTC_SUCCESS) {
    (void)snprintf(why, room, "%.400s", log);
    for (char *c = why; *c != '\0'; c++) {
      *c = *c == '\n' ? ' ' : *c;
    }
  }
  free(log);
}

/* A sum is not joined with the product before it: two roundings, as one function after the other
** has them (gpu.mk says the same to nvcc). */
static nvrtcResult compile(nvrtcProgram program, int32_t capability)
{
  char arch[48];
  const char *options[] = { arch, "--fmad=false", "--std=c++17" };

  (void)snprintf(arch, sizeof(arch), "--gpu-architecture=sm_%d", capability);
  return nvrtc.CompileProgram(program, 3, options);
}

static nvrtcResult code_of(nvrtcProgram program, char **code, size_t *bytes)
{
  nvrtcResult result = nvrtc.GetCUBINSize(program, bytes);

  if (result != NVRTC_SUCCESS) {
    return result;
  }
  *code = (char *)malloc(*bytes > 0 ? *bytes : 1);
  if (*code == NULL) {
    return NVRTC_ERROR_OUT_OF_MEMORY;
  }
  result = nvrtc.GetCUBIN(program, *code);
  if (result != NVRTC_SUCCESS) {
    free(*code);
    *code = NULL;
  }
  return result;
}

bool rg_compile(const char *text, int32_t capability, char **code, size_t *bytes, char *why,
                size_t room)
{
  nvrtcProgram program;
  nvrtcResult result;

  *code = NULL;
  *bytes = 0;
  if (rg_compiler_version(true) == 0) {
    (void)snprintf(why, room, "%s", note);
    return false;
  }
  result = nvrtc.CreateProgram(&program, text, "fused.cu", 0, NULL, NULL);
  if (result != NVRTC_SUCCESS) {
    (void)snprintf(why, room, "%s", nvrtc.GetErrorString(result));
    return false;
  }
  result = compile(program, capability);
  if (result == NVRTC_SUCCESS) {
    result = code_of(program, code, bytes);
  }
  if (result != NVRTC_SUCCESS) {
    explain(program, result, why, room);
  }
  (void)nvrtc.DestroyProgram(&program);
  return result == NVRTC_SUCCESS;
}

#endif
