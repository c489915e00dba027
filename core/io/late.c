/* SPDX-License-Identifier: MIT */
/*
** Tensors out of safetensors files: copied at once, copied when they are used first, or private
** pages of the file.
**
** What is copied comes by read(2), so that a file which is cut meanwhile is an error.  A file that
** changed since its header was read is refused: its bytes would be another tensor's.  A file that
** was replaced under its name (as every file of ridge's is) stays what it was here.
*/
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "io/io.h"
#include "io/safetensors.h"

typedef struct late {
  rg_source source;
  rg_opened *file; /* held */
  const rg_safetensors_entry *entry;
} late;

/* What went wrong, of which tensor and file. */
static rg_status failed(const rg_opened *file, const rg_safetensors_entry *e, rg_status status)
{
  char name[64];
  char text[256];

  if (status == RG_OK || status == RG_EINTR || status == RG_ENOMEM) {
    return status;
  }
  snprintf(text, sizeof(text), "%s", rg_error_message());
  return rg_fail(status, "load: \"%s\" cannot be read out of %.200s: %s",
                 rg_shown_name(e->name, name), file->path, text);
}

static rg_status unchanged(const rg_opened *file)
{
  struct stat now;

  if (fstat(file->file, &now) != 0) {
    return rg_fail(RG_EIO, "%s", strerror(errno));
  }
  if (now.st_size < file->facts.st_size) {
    return rg_fail(RG_EFORMAT, "it was cut off since it was opened: %lld of %lld bytes are there",
                   (long long)now.st_size, (long long)file->facts.st_size);
  }
  if (now.st_size != file->facts.st_size || now.st_mtim.tv_sec != file->facts.st_mtim.tv_sec ||
      now.st_mtim.tv_nsec != file->facts.st_mtim.tv_nsec) {
    return rg_fail(RG_EFORMAT, "it was changed since it was opened");
  }
  return RG_OK;
}

/* What reads masks takes a byte for a number, and there are two. */
static rg_status true_or_false(const rg_safetensors_entry *e, const uint8_t *data)
{
  for (int64_t i = 0; i < e->bytes && e->dtype == RG_BOOL; i++) {
    if (data[i] > 1) {
      return rg_fail(RG_EFORMAT, "element %lld is %d, and a bool is 0 or 1", (long long)(i + 1),
                     data[i]);
    }
  }
  return RG_OK;
}

static rg_status copy(const rg_opened *file, const rg_safetensors_entry *e, void *out)
{
  rg_status status = unchanged(file);

  if (status == RG_OK) {
    status = rg_io_read(file->file, e->at, out, e->bytes);
  }
  if (status == RG_OK) {
    status = unchanged(file); /* meanwhile */
  }
  if (status == RG_OK) {
    status = true_or_false(e, out);
  }
  return failed(file, e, status);
}

/* -- Sources ---------------------------------------------------------------------------------- */

static rg_status late_fill(rg_source *source, rg_storage *storage)
{
  const late *self = (const late *)source;
  rg_status status = RG_OK;

  (void)pthread_mutex_lock(&self->file->lock);
  if (storage->block.data == NULL) { /* else another thread was faster */
    rg_block block = { .data = NULL };

    status = rg_block_alloc_shared(RG_CPU, self->entry->bytes, &block);
    if (status == RG_OK) {
      status = copy(self->file, self->entry, block.data);
      if (status == RG_OK) {
        storage->block = block;
      } else {
        rg_block_free(&block);
      }
    }
  }
  (void)pthread_mutex_unlock(&self->file->lock);
  return status;
}

static void late_release(rg_source *source)
{
  late *self = (late *)source;

  rg_opened_release(self->file);
  rg_host_free(self);
}

static rg_status late_new(rg_opened *file, const rg_safetensors_entry *e, bool owns,
                          rg_source **out)
{
  late *self = rg_host_zeroed(sizeof(*self));

  if (self == NULL) {
    return rg_fail(RG_ENOMEM, "load: no memory for a tensor");
  }
  self->source = (rg_source){ .fill = late_fill, .release = late_release, .owns = owns };
  self->file = file;
  self->entry = e;
  atomic_fetch_add(&file->refs, 1);
  *out = &self->source;
  return RG_OK;
}

int32_t rg_tensor_is_later(const rg_tensor *x)
{
  return x != NULL && (__atomic_load_n(&x->_flags, __ATOMIC_ACQUIRE) & RG_TENSOR_LATER) != 0;
}

/* -- Tensors ---------------------------------------------------------------------------------- */

static rg_status map_file(rg_opened *file)
{
  void *map;

  if (file->map != NULL) {
    return RG_OK;
  }
  map = mmap(NULL, (size_t)file->shown.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
             file->file, 0);
  if (map == MAP_FAILED) {
    return rg_fail(RG_EIO, "it cannot be mapped: %s", strerror(errno));
  }
  file->map = map;
  return RG_OK;
}

static rg_status make_now(const rg_opened *file, const rg_safetensors_entry *e, rg_tensor **out)
{
  rg_tensor *x;
  rg_status status;

  RG_TRY(rg_empty(e->dtype, RG_CPU, e->shape, e->ndim, &x));
  status = copy(file, e, x->_data);
  if (status != RG_OK) {
    rg_tensor_release(x);
    return status;
  }
  *out = x;
  return RG_OK;
}

rg_status rg_safetensors_tensor(rg_safetensors *shown, int64_t i, int32_t how, rg_tensor **out)
{
  rg_opened *file = (rg_opened *)shown;
  const rg_safetensors_entry *e;
  rg_source *source;
  char name[64];

  if (file == NULL || out == NULL || i < 0 || i >= file->shown.n || how < RG_SAFETENSORS_NOW ||
      how > RG_SAFETENSORS_MAPPED) {
    return rg_fail(RG_EARG, "load: no tensor %lld of a file", (long long)i);
  }
  e = &file->entries[i];
  if (e->dtype == RG_DTYPE_COUNT) {
    return rg_fail(RG_EDTYPE, "load: \"%s\" is of type %s, which ridge does not have",
                   rg_shown_name(e->name, name), e->type);
  }
  if (how == RG_SAFETENSORS_MAPPED &&
      (e->at % rg_dtype_bytes(e->dtype) != 0 || e->dtype == RG_BOOL)) {
    how = RG_SAFETENSORS_LATER;
  }
  if (how == RG_SAFETENSORS_NOW || e->count == 0) {
    return make_now(file, e, out);
  }
  if (how == RG_SAFETENSORS_MAPPED) {
    RG_TRY(failed(file, e, map_file(file)));
  }
  RG_TRY(late_new(file, e, how == RG_SAFETENSORS_MAPPED, &source));
  return rg_tensor_from(source, how == RG_SAFETENSORS_MAPPED ? file->map + e->at : NULL, e->dtype,
                        e->shape, e->ndim, out);
}
