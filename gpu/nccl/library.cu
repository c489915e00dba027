/* SPDX-License-Identifier: MIT */
/*
** Opening NCCL.  Nothing links it: it is looked for by name when tensors of a GPU first have to do
** with another process.
**
** RIDGE_NCCL names another file, or is `none`.  Memory of the simulated devices is none that NCCL
** could read: there only a file that is named is opened (tests/sim/fakenccl.cpp).
*/
#include <dlfcn.h>
#include <mutex>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/nccl/comm.cuh"
#include "gpu/nccl/library.cuh"

#if defined(__has_include)
#if __has_include(<nccl.h>)
#include <nccl.h>

/* What is declared here is what the library's own header says, where that is. */
static_assert((int)RG_NCCL_SUCCESS == ncclSuccess && (int)RG_NCCL_IN_PROGRESS == ncclInProgress &&
                  (int)RG_NCCL_I8 == ncclInt8 && (int)RG_NCCL_U8 == ncclUint8 &&
                  (int)RG_NCCL_I32 == ncclInt32 && (int)RG_NCCL_I64 == ncclInt64 &&
                  (int)RG_NCCL_F16 == ncclFloat16 && (int)RG_NCCL_F32 == ncclFloat32 &&
                  (int)RG_NCCL_F64 == ncclFloat64 && (int)RG_NCCL_BF16 == ncclBfloat16 &&
                  (int)RG_NCCL_SUM == ncclSum && (int)RG_NCCL_PROD == ncclProd &&
                  (int)RG_NCCL_MAX == ncclMax && (int)RG_NCCL_MIN == ncclMin &&
                  (int)RG_NCCL_AVG == ncclAvg,
              "nccl.h has other numbers");
static_assert(sizeof(rg_nccl_id) == sizeof(ncclUniqueId) &&
                  offsetof(rg_nccl_config, magic) == offsetof(ncclConfig_t, magic) &&
                  offsetof(rg_nccl_config, version) == offsetof(ncclConfig_t, version) &&
                  offsetof(rg_nccl_config, blocking) == offsetof(ncclConfig_t, blocking),
              "nccl.h has other structures");
#endif
#endif

enum { NEWEST = 30000 };

static std::once_flag once;
static rg_nccl_library library;
static bool is_open;
static char note[512];

/* The library; NULL where there is none, and note says why. */
static void *find(void)
{
  const char *given = getenv("RIDGE_NCCL");
  const char *name = given != NULL && given[0] != '\0' ? given : "libnccl.so.2";
  void *from;

  if (strcmp(name, "none") == 0) {
    snprintf(note, sizeof(note), "not used: RIDGE_NCCL says none");
    return NULL;
  }
#ifdef RG_SIM
  if (name != given) {
    snprintf(note, sizeof(note), "not used: the simulated device is none of NCCL's");
    return NULL;
  }
#endif
  from = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (from == NULL) {
    snprintf(note, sizeof(note), "not there: %s; RIDGE_NCCL names it elsewhere", dlerror());
  }
  return from;
}

/* The functions by name; the first that is not there, or NULL. */
static const char *fill(void *from)
{
#define FILL(name, ...)                                                        \
  library.name = (decltype(library.name))(uintptr_t)dlsym(from, "nccl" #name); \
  if (library.name == NULL) {                                                  \
    return "nccl" #name;                                                       \
  }
  RG_NCCL_LIST(FILL)
  FILL(GetErrorString)
  FILL(GetLastError)
#undef FILL
  return NULL;
}

static void open_once(void)
{
  void *from = find();
  const char *lacks;

  if (from == NULL) {
    return;
  }
  lacks = fill(from);
  if (lacks != NULL) {
    snprintf(note, sizeof(note), "not used: it has no function %s, which 2.14 and later have",
             lacks);
    return;
  }
  if (library.GetVersion(&library.version) != RG_NCCL_SUCCESS || library.version < RG_NCCL_OLDEST ||
      library.version >= NEWEST) {
    snprintf(note, sizeof(note), "not used: it is of version %d, wanted %d to %d", library.version,
             RG_NCCL_OLDEST, NEWEST - 1);
    return;
  }
  is_open = true;
}

const rg_nccl_library *rg_nccl_open(void)
{
  std::call_once(once, open_once);
  return is_open ? &library : NULL;
}

const char *rg_nccl_note(void)
{
  (void)rg_nccl_open();
  return note;
}

int32_t rg_nccl_version(bool open)
{
  if (open) {
    (void)rg_nccl_open();
  }
  return is_open ? (int32_t)library.version : 0;
}
