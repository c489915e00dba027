/* SPDX-License-Identifier: MIT */
/*
** Opening cuDNN.  Nothing links it: it is looked for by name when the first call could use it, so
** that ridge runs where it is not installed and pays nothing where no call wants it.
**
** RIDGE_CUDNN names another file, or is `none`.  The simulator of the tests has no device that
** cuDNN could know: there it is never opened, and `simulated` means a small stand-in, which is in
** the simulator and computes what a graph says.
*/
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <mutex>

#include "gpu/fused/compiler.h"
#include "gpu/dnn/graph.h"

static char note[512];

#if !RG_HAS_DNN

const char *rg_dnn_note(void)
{
  return "not used: the GPU's kernels were built without cuDNN's headers";
}

int32_t rg_dnn_version(bool)
{
  return 0;
}

#else

enum { OLDEST = 91000, NEWEST = 100000 }; /* 9.10 and later of version 9: the graphs' names */

static std::once_flag once;
static rg_dnn_library library;
static std::atomic<bool> is_open;

/* The functions by name; the first that is not there, or NULL. */
static const char *fill(void *from)
{
#ifdef RG_SIM
  (void)from;
#define FILL(name) library.name = ::cudnn##name;
#else
#define FILL(name)                                                              \
  library.name = (decltype(library.name))(uintptr_t)dlsym(from, "cudnn" #name); \
  if (library.name == NULL) {                                                   \
    return "cudnn" #name;                                                       \
  }
#endif
  RG_DNN_LIST(FILL)
#undef FILL
  return NULL;
}

/* The library; NULL where there is none, and note says why. */
static void *find(const char *name)
{
#ifdef RG_SIM
  if (strcmp(name, "simulated") == 0) {
    return &library;
  }
  snprintf(note, sizeof(note), "not used: the simulated device is none of cuDNN's");
  return NULL;
#else
  void *from = dlopen(name, RTLD_NOW | RTLD_LOCAL);

  if (from == NULL) {
    snprintf(note, sizeof(note), "not used: %s", dlerror());
  }
  /* It opens NVRTC by name to compile attention and fused convolutions; where only ridge knows the
  ** folder, it finds what is open already. */
  (void)rg_compiler_version(true);
  return from;
#endif
}

static void open_once(void)
{
  const char *given = getenv("RIDGE_CUDNN");
  const char *name = given != NULL && given[0] != '\0' ? given : "libcudnn.so.9";
  const char *lacks;

  if (strcmp(name, "none") == 0) {
    snprintf(note, sizeof(note), "not used: RIDGE_CUDNN says none");
    return;
  }
  void *from = find(name);

  if (from == NULL) {
    return;
  }
  lacks = fill(from);
  if (lacks != NULL) {
    snprintf(note, sizeof(note), "not used: %s has no function %s", name, lacks);
    return;
  }
  library.version = library.GetVersion();
  if (library.version < OLDEST || library.version >= NEWEST) {
    snprintf(note, sizeof(note), "not used: %s is of version %zu, wanted %d to %d", name,
             library.version, OLDEST, NEWEST - 1);
    return;
  }
  snprintf(note, sizeof(note), "%zu.%zu.%zu", library.version / 10000, library.version / 100 % 100,
           library.version % 100);
  is_open = true;
}

const rg_dnn_library *rg_dnn_open(void)
{
  std::call_once(once, open_once);
  return is_open ? &library : NULL;
}

const char *rg_dnn_note(void)
{
  (void)rg_dnn_open();
  return note;
}

int32_t rg_dnn_version(bool open)
{
  if (open) {
    (void)rg_dnn_open();
  }
  return is_open ? (int32_t)library.version : 0;
}

#endif
