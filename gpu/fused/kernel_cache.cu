/* SPDX-License-Identifier: MIT */
/*
** Kernels of chains: in this process, where each is compiled once and stays loaded, because graphs
** hold it; and in files, fused-HASH.bin (gpu/cache.cuh), for the next one.
**
** A file holds what the code was made of, all of the text and the compiler's version: a file that
** does not say exactly that, to the last byte, is not used and is written again.
*/
#include "gpu/fused/kernel_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mutex>

#include "gpu/cache.cuh"
#include "gpu/device.cuh"

#if RG_HAS_COMPILER

enum {
  ENTRIES = 1024, /* chains of this process; those after them are run link by link */
  FILE_MOST = 4 << 20
};

struct entry {
  rg_fused_form form;
  uint64_t hash;
  int32_t capability;
  cudaKernel_t kernel; /* NULL: it cannot be compiled */
};

static entry *entries[ENTRIES];
static int32_t n_entries;
static std::mutex lock;
static char failure[512]; /* the first */

/* -- Files ------------------------------------------------------------------------------------- */

/* In front of the text and the code; the hash of everything is behind them. */
struct head {
  char magic[24];
  int32_t version, capability;
  int64_t text, code; /* bytes */
};

static head head_of(int32_t version, int32_t capability, size_t text, size_t code)
{
  head h = { "ridge compiled fused 1\n", version, capability, (int64_t)text, (int64_t)code };

  return h;
}

static void name_of(const char *text, int32_t version, int32_t capability, char name[32])
{
  head h = head_of(version, capability, strlen(text), 0);
  uint64_t hash = rg_hash(text, strlen(text), rg_hash(&h, sizeof(h), RG_HASH_BEGIN));

  (void)snprintf(name, 32, "fused-%08x%08x.bin", (unsigned)(hash >> 32), (unsigned)hash);
}

/* The code of a text from its file, malloc'd. */
static char *load(const char *text, int32_t version, int32_t capability)
{
  char name[32];
  size_t bytes = 0;
  size_t n = strlen(text);
  char *all;
  head h;
  uint64_t hash;

  name_of(text, version, capability, name);
  all = rg_cache_read(name, FILE_MOST, &bytes);
  if (all == NULL) {
    return NULL;
  }
  if (bytes > sizeof(h) + n + sizeof(hash)) {
    size_t code = bytes - sizeof(h) - n - sizeof(hash);
    head wanted = head_of(version, capability, n, code);

    memcpy(&hash, all + bytes - sizeof(hash), sizeof(hash));
    if (memcmp(all, &wanted, sizeof(wanted)) == 0 && memcmp(all + sizeof(h), text, n) == 0 &&
        rg_hash(all, bytes - sizeof(hash), RG_HASH_BEGIN) == hash) {
      memmove(all, all + sizeof(h) + n, code);
      return all;
    }
  }
  free(all);
  return NULL;
}

/* A file that cannot be written is no error: the next process compiles again. */
static void save(const char *text, int32_t version, int32_t capability, const char *code,
                 size_t bytes)
{
  size_t n = strlen(text);
  head h = head_of(version, capability, n, bytes);
  uint64_t hash = rg_hash(&h, sizeof(h), RG_HASH_BEGIN);
  const rg_cache_piece piece[] = {
    { &h, sizeof(h) }, { text, n }, { code, bytes }, { &hash, sizeof(hash) }
  };
  char name[32];

  if (sizeof(h) + n + bytes + sizeof(hash) <= FILE_MOST) {
    hash = rg_hash(code, bytes, rg_hash(text, n, hash));
    name_of(text, version, capability, name);
    (void)rg_cache_write(name, piece, 4);
  }
}

/* -- Loading ----------------------------------------------------------------------------------- */

/* NULL where the driver does not take the code. */
static cudaKernel_t kernel_in(const char *code)
{
  cudaLibrary_t library = NULL;
  cudaKernel_t kernel = NULL;

  if (code != NULL &&
      cudaLibraryLoadData(&library, code, NULL, NULL, 0, NULL, NULL, 0) == cudaSuccess) {
    if (cudaLibraryGetKernel(&kernel, library, RG_FUSED_KERNEL) == cudaSuccess) {
      return kernel;
    }
    (void)cudaLibraryUnload(library);
  }
  (void)cudaGetLastError();
  return NULL;
}

static cudaKernel_t make(const rg_fused_form *form, int32_t capability)
{
  int32_t version = rg_compiler_version(true);
  char *text = version > 0 ? (char *)malloc(RG_FUSED_TEXT_MOST) : NULL;
  cudaKernel_t kernel = NULL;
  size_t bytes;
  char why[512] = "";
  char *code;

  if (text != NULL && rg_fused_text(form, text, RG_FUSED_TEXT_MOST) > 0) {
    code = load(text, version, capability);
    kernel = kernel_in(code);
    free(code);
    if (kernel == NULL && rg_compile(text, capability, &code, &bytes, why, sizeof(why))) {
      kernel = kernel_in(code);
      if (kernel != NULL) {
        save(text, version, capability, code, bytes);
      }
      (void)snprintf(why, sizeof(why), "the driver does not load what it compiled");
      free(code);
    }
    if (kernel == NULL && failure[0] == '\0') {
      (void)snprintf(failure, sizeof(failure), "%s", why);
    }
  }
  free(text);
  return kernel;
}

/* -- The table --------------------------------------------------------------------------------- */

const char *rg_fused_failure(void)
{
  std::lock_guard<std::mutex> held(lock);

  return failure;
}

cudaKernel_t rg_fused_kernel(int32_t device, const rg_fused_form *form)
{
  const int32_t capability = rg_gpu_capability(device);
  const uint64_t hash = rg_hash(form, sizeof(*form), RG_HASH_BEGIN ^ (uint64_t)capability);
  std::lock_guard<std::mutex> held(lock);
  entry *e;

  for (int32_t i = 0; i < n_entries; i++) {
    e = entries[i];
    if (e->hash == hash && e->capability == capability &&
        memcmp(&e->form, form, sizeof(*form)) == 0) {
      return e->kernel;
    }
  }
  if (n_entries == ENTRIES || rg_gpu_captures(device) || rg_compiler_version(true) == 0) {
    return NULL;
  }
  e = (entry *)malloc(sizeof(*e));
  if (e == NULL) {
    return NULL;
  }
  e->form = *form;
  e->hash = hash;
  e->capability = capability;
  e->kernel = make(form, capability);
  entries[n_entries++] = e;
  return e->kernel;
}

#else

const char *rg_fused_failure(void)
{
  return "";
}

#endif
