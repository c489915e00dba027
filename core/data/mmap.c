/* SPDX-License-Identifier: MIT */
/*
** Files as memory: their pages come when they are touched, and stay in the system's cache.
*/
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "data/data.h"

typedef struct map {
  rg_map shown;
  _Atomic int64_t refs;
} map;

static rg_status map_file(const char *path, int file, rg_map *out)
{
  struct stat facts;
  void *data;

  if (fstat(file, &facts) != 0) {
    return rg_fail(RG_EIO, "map: %s: %s", path, strerror(errno));
  }
  if (!S_ISREG(facts.st_mode)) {
    return rg_fail(RG_EIO, "map: %s is no file", path);
  }
  *out = (rg_map){ ._data = "", ._bytes = facts.st_size, ._file = file };
  if (facts.st_size == 0) {
    return RG_OK; /* the system maps nothing of it */
  }
  data = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_SHARED, file, 0);
  if (data == MAP_FAILED) {
    return rg_fail(RG_EIO, "map: %s cannot be mapped: %s", path, strerror(errno));
  }
  out->_data = data;
  return RG_OK;
}

rg_status rg_map_open(const char *path, rg_map **out)
{
  map *self;
  int file;
  rg_status status;

  if (path == NULL || out == NULL) {
    return rg_fail(RG_EARG, "map: a pointer is NULL");
  }
  self = rg_host_zeroed(sizeof(*self));
  if (self == NULL) {
    return rg_fail(RG_ENOMEM, "map: no memory for %s", path);
  }
  file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO waits for nobody: it is no file */
  if (file < 0) {
    rg_host_free(self);
    return rg_fail(RG_EIO, "map: %s: %s", path, strerror(errno));
  }
  status = map_file(path, file, &self->shown);
  if (status != RG_OK) {
    (void)close(file);
    rg_host_free(self);
    return status;
  }
  atomic_init(&self->refs, 1);
  *out = &self->shown;
  return RG_OK;
}

rg_map *rg_map_retain(rg_map *shown)
{
  if (shown != NULL) {
    atomic_fetch_add(&((map *)shown)->refs, 1);
  }
  return shown;
}

void rg_map_release(rg_map *shown)
{
  if (shown == NULL || atomic_fetch_sub(&((map *)shown)->refs, 1) != 1) {
    return;
  }
  if (shown->_bytes > 0) {
    munmap((void *)shown->_data, (size_t)shown->_bytes);
  }
  (void)close(shown->_file);
  rg_host_free(shown);
}

/* -- What became of it ----------------------------------------------------------------- */

rg_status rg_map_check(int32_t file, int64_t bytes)
{
  struct stat facts;

  if (fstat(file, &facts) != 0) {
    return rg_fail(RG_EIO, "its file cannot be asked: %s", strerror(errno));
  }
  if (facts.st_size < bytes) {
    return rg_fail(RG_EFORMAT, "cut off: %lld bytes are there, %lld are wanted",
                   (long long)facts.st_size, (long long)bytes);
  }
  return RG_OK;
}
