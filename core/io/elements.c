/* SPDX-License-Identifier: MIT */
/*
** Elements out of files, by read(2): a file that becomes shorter meanwhile gives an error and no
** signal, and its pages are not ours.
*/
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tensor/tensor.h"
#include "io/io.h"

/* -- Types that ridge lacks ------------------------------------------------------------------ */

/* Number i of those that lie n bits each in bytes, the lowest bits first, with or without sign. */
static int64_t narrow(const uint8_t *raw, int64_t i, int32_t bits, bool is_signed)
{
  int64_t at = i * bits;
  int32_t value = (raw[at / 8] >> (at % 8)) & ((1 << bits) - 1);

  return is_signed && value >> (bits - 1) != 0 ? value - (1 << bits) : value;
}

static rg_status whole_of(int32_t type, const char *raw, int64_t i, int64_t *out)
{
  const uint8_t *bytes = (const uint8_t *)raw;
  uint64_t wide;
  uint32_t word;
  uint16_t half;

  switch (type) {
  case 4:
  case 5:
    memcpy(&half, raw + 2 * i, 2);
    *out = type == 4 ? (int64_t)half : (int64_t)(int16_t)half;
    return RG_OK;
  case 9:
    *out = bytes[i] != 0;
    return RG_OK;
  case 12:
    memcpy(&word, raw + 4 * i, 4);
    *out = word;
    return RG_OK;
  case 13:
    memcpy(&wide, raw + 8 * i, 8);
    if (wide > INT64_MAX) {
      return rg_fail(RG_EDTYPE, "an element of type u64 is %llu, which i64 cannot hold",
                     (unsigned long long)wide);
    }
    *out = (int64_t)wide;
    return RG_OK;
  case 21:
    *out = narrow(bytes, i, 4, false);
    return RG_OK;
  case 22:
    *out = narrow(bytes, i, 4, true);
    return RG_OK;
  case 25:
    *out = narrow(bytes, i, 2, false);
    return RG_OK;
  case 26:
    *out = narrow(bytes, i, 2, true);
    return RG_OK;
  default:
    return rg_fail(RG_EBUG, "onnx: type %d is not widened", type);
  }
}

rg_status rg_onnx_widen(int32_t type, const char *raw, int64_t n, int64_t first, char *out)
{
  const rg_onnx_type *facts = rg_onnx_type_of(type);
  int64_t size = rg_dtype_bytes(facts->dtype);

  if (!facts->wide) {
    if (n > 0) {
      memcpy(out + first * size, raw, (size_t)(n * size));
    }
    return RG_OK;
  }
  for (int64_t i = 0; i < n; i++) {
    int64_t whole;

    RG_TRY(whole_of(type, raw, i, &whole));
    memcpy(out + (first + i) * size, &whole, (size_t)size); /* the lowest bytes come first */
  }
  return RG_OK;
}

/* -- Files ----------------------------------------------------------------------------------- */

rg_status rg_onnx_elements(int32_t file, int64_t at, int32_t type, int64_t count, void *out)
{
  const rg_onnx_type *facts = rg_onnx_type_of(type);
  char raw[8192];
  int64_t most;

  if (!facts->wide) {
    return rg_io_read(file, at, out, count * (facts->bits / 8));
  }
  most = (int64_t)sizeof(raw) * 8 / facts->bits;
  for (int64_t done = 0; done < count; done += most) {
    int64_t n = count - done < most ? count - done : most;

    RG_TRY(rg_io_read(file, at + done * facts->bits / 8, raw, (n * facts->bits + 7) / 8));
    RG_TRY(rg_onnx_widen(type, raw, n, done, out));
  }
  return RG_OK;
}

rg_status rg_onnx_room(const rg_onnx_tensor *t, rg_tensor **out)
{
  const rg_onnx_type *facts = rg_onnx_type_of(t->type);

  if (facts == NULL || facts->dtype == RG_DTYPE_COUNT) {
    return rg_fail(RG_EDTYPE, "ridge has no elements of type %s",
                   facts == NULL ? "?" : facts->name);
  }
  return rg_empty(facts->dtype, RG_CPU, t->dims, t->ndim, out);
}

rg_status rg_onnx_external_read(int32_t file, const rg_onnx_tensor *t, rg_tensor **out)
{
  rg_tensor *x = NULL;
  rg_status status;

  if (t == NULL || out == NULL) {
    return rg_fail(RG_EARG, "onnx: a pointer is NULL");
  }
  RG_TRY(rg_onnx_room(t, &x));
  status = rg_onnx_elements(file, t->external_at, t->type, t->count, x->_data);
  if (status != RG_OK) {
    rg_tensor_release(x);
    return status;
  }
  *out = x;
  return RG_OK;
}

/* The next part of a path, or NULL at its end. */
static const char *part_of(const char **path, char *part, size_t room)
{
  size_t n = strcspn(*path, "/");

  if (n == 0 || n >= room) {
    return NULL;
  }
  memcpy(part, *path, n);
  part[n] = '\0';
  *path += n + ((*path)[n] == '/');
  return part;
}

static rg_status refused(const char *location, const char *why)
{
  return rg_fail(RG_EFORMAT, "external data '%.200s' %s", location, why);
}

rg_status rg_onnx_open(const char *folder, const char *location, int64_t *bytes, int32_t *file)
{
  char part[NAME_MAX + 1];
  const char *rest = location;
  struct stat facts;
  int at;

  if (folder == NULL || location == NULL || bytes == NULL || file == NULL) {
    return rg_fail(RG_EARG, "onnx: a pointer is NULL");
  }
  if (location[0] == '/') {
    return refused(location, "is not below the model's folder");
  }
  at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (at < 0) {
    return rg_fail(RG_EIO, "folder %s: %s", folder, strerror(errno));
  }
  for (;;) {
    const char *name = part_of(&rest, part, sizeof(part));
    bool last = *rest == '\0';
    int next;

    if (name == NULL || strcmp(name, "..") == 0) {
      (void)close(at);
      return refused(location, name == NULL ? "is no path" : "is not below the model's folder");
    }
    next =
        openat(at, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | (last ? 0 : O_DIRECTORY));
    (void)close(at);
    if (next < 0) {
      return errno == ELOOP || errno == ENOTDIR
                 ? refused(location, "is reached through a link")
                 : rg_fail(RG_EIO, "external data '%.200s': %s", location, strerror(errno));
    }
    at = next;
    if (last) {
      break;
    }
  }
  if (fstat(at, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    (void)close(at);
    return refused(location, "is no regular file");
  }
  *bytes = facts.st_size;
  *file = at;
  return RG_OK;
}

void rg_onnx_close(int32_t file)
{
  (void)close(file);
}
