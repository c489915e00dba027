/* SPDX-License-Identifier: MIT */
/*
** Where files are kept between processes.
*/
#include "gpu/cache.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool rg_cache_path(const char *name, bool make, char *path, size_t room)
{
  const char *cache = getenv("XDG_CACHE_HOME");
#ifdef RG_SIM
  const char *home = NULL; /* tests leave nothing in the user's folder */
#else
  const char *home = getenv("HOME");
#endif
  char folder[3072];
  int n;

  if (cache != NULL && cache[0] == '/') {
    n = snprintf(folder, sizeof(folder), "%s", cache);
  } else if (home != NULL && home[0] == '/') {
    n = snprintf(folder, sizeof(folder), "%s/.cache", home);
  } else {
    return false;
  }
  if (n < 0 || (size_t)n + 64 > sizeof(folder) || (size_t)n + 64 > room || strlen(name) > 32) {
    return false;
  }
  if (make) {
    (void)mkdir(folder, 0700);
  }
  (void)snprintf(path, room, "%.*s/ridge", n, folder);
  if (make) {
    (void)mkdir(path, 0700);
  }
  (void)snprintf(path, room, "%.*s/ridge/%s", n, folder, name);
  return true;
}

uint64_t rg_hash(const void *data, size_t bytes, uint64_t h)
{
  for (size_t i = 0; i < bytes; i++) {
    h = (h ^ ((const unsigned char *)data)[i]) * 1099511628211u;
  }
  return h;
}
