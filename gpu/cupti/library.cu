/* SPDX-License-Identifier: MIT */
/*
** Opening CUPTI. Nothing links it: it is looked for by name when a profile first asks for kernels.
**
** RIDGE_CUPTI names another file, or is `none`. What the simulator of the tests does is nothing
** that NVIDIA's library could see: only a file that is named is opened (tests/sim/fakecupti.cpp).
*/
#include <dlfcn.h>
#include <mutex>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/cupti/library.cuh"

/* Of CUDA 12.0, and behind all of 13: records of later ones were not seen. */
enum { OLDEST = 18, NEWEST = 140000 };

static std::once_flag once;
static rg_cupti_library library;
static bool is_open;
static char note[512];

/* Where it is installed: a toolkit may keep it aside from its other libraries. */
static void *find(char *name, size_t bytes)
{
#ifdef RG_SIM
  (void)bytes;
  (void)name;
  return NULL;
#else
  static const char *const folders[] = { "", "/usr/local/cuda/extras/CUPTI/lib64/",
                                         "/usr/local/cuda/lib64/" };
  static const char *const files[] = { "libcupti.so.13", "libcupti.so.12" };

  for (const char *file : files) {
    for (const char *folder : folders) {
      snprintf(name, bytes, "%s%s", folder, file);
      void *from = dlopen(name, RTLD_NOW | RTLD_LOCAL);

      if (from != NULL) {
        return from;
      }
    }
  }
  return NULL;
#endif
}

/* The library; NULL where there is none, and note says why. */
static void *open_library(char *name, size_t bytes)
{
  const char *given = getenv("RIDGE_CUPTI");
  void *from = NULL;

  if (given != NULL && strcmp(given, "none") == 0) {
    snprintf(note, sizeof(note), "RIDGE_CUPTI says none");
    return NULL;
  }
  if (given != NULL && given[0] != '\0') {
    snprintf(name, bytes, "%s", given);
    from = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (from == NULL) {
      snprintf(note, sizeof(note), "%s", dlerror());
    }
    return from;
  }
  from = find(name, bytes);
  if (from == NULL) {
#ifdef RG_SIM
    snprintf(note, sizeof(note), "the simulated device is none of CUPTI's");
#else
    snprintf(note, sizeof(note),
             "there is no libcupti.so.13 or libcupti.so.12 here (CUPTI, a part "
             "of the CUDA toolkit); RIDGE_CUPTI names it elsewhere");
#endif
  }
  return from;
}

/* The functions by name; the first that is not there, or NULL. */
static const char *fill(void *from)
{
#define FILL(name, arguments)                                                   \
  library.name = (decltype(library.name))(uintptr_t)dlsym(from, "cupti" #name); \
  if (library.name == NULL) {                                                   \
    return "cupti" #name;                                                       \
  }
  RG_CUPTI_LIST(FILL)
#undef FILL
  return NULL;
}

static void open_once(void)
{
  char name[4096] = "";
  void *from = open_library(name, sizeof(name));
  const char *lacks;

  if (from == NULL) {
    return;
  }
  lacks = fill(from);
  if (lacks != NULL) {
    snprintf(note, sizeof(note), "%.300s has no function %s", name, lacks);
    return;
  }
  rg_cupti_result code = library.GetVersion(&library.version);

  if (code != 0) {
    snprintf(note, sizeof(note), "%.300s does not say its version (code %d)", name, code);
    return;
  }
  if (library.version < OLDEST || library.version >= NEWEST) {
    snprintf(note, sizeof(note), "%.300s is of version %u; %d (CUDA 12.0) to %d are known", name,
             (unsigned)library.version, OLDEST, NEWEST - 1);
    return;
  }
  is_open = true;
}

rg_status rg_cupti_open(const rg_cupti_library **out)
{
  std::call_once(once, open_once);
  if (!is_open) {
    return rg_gpu->fail(RG_EDEVICE, "activity: %s", note);
  }
  *out = &library;
  return RG_OK;
}

/* -- What its errors mean ---------------------------------------------------------------------- */

/* Numbers of CUptiResult. */
static const struct {
  rg_cupti_result code;
  const char *means;
} known[] = {
  { 8, "it is out of memory" },
  { 14, "it is not compatible with this driver" },
  { 15, "it does not start: is it newer than the driver?" },
  { 27, "this device or system does not support it" },
  { 33, "this virtual GPU does not allow it" },
  { 35, "this user may not profile the GPU: the driver allows it to an administrator, or to "
        "everybody with NVreg_RestrictProfilingToAdminUsers=0" },
  { 38, "this device is not supported by it" },
  { 39, "another profiler is attached to this process, and there can be one only" },
  { 40, "this user may not profile this virtual GPU" },
  { 41, "confidential computing does not allow it" },
  { 43, "parts of a GPU (MIG) are not supported by it" },
};

rg_status rg_cupti_status(const rg_cupti_library *from, const char *what, rg_cupti_result code)
{
  const char *name = NULL;
  const char *means = "";

  if (code == 0) {
    return RG_OK;
  }
  if (from->GetResultString(code, &name) != 0 || name == NULL) {
    name = "an error of its own";
  }
  for (const auto &each : known) {
    means = each.code == code ? each.means : means;
  }
  return rg_gpu->fail(code == 8 ? RG_ENOMEM : RG_EDEVICE, "activity: cupti%s: %s (%d)%s%s", what,
                      name, code, means[0] != '\0' ? ": " : "", means);
}
