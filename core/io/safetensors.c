/* SPDX-License-Identifier: MIT */
/*
** Reading the headers of safetensors files.  Every byte of a file belongs to one tensor, as the
** format wants it: what overlaps, leaves a gap or reaches out of the file is refused, and so are
** names that come twice.  A tensor of a type that ridge lacks stands in the list without a dtype.
*/
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "io/io.h"
#include "io/safetensors.h"

/* -- Entries ---------------------------------------------------------------------------------- */

/* Room for one more of n things of a size in a list. */
static rg_status grow(void **list, int64_t n, int64_t *room, size_t size)
{
  int64_t more = *room > 0 ? 2 * *room : 64;
  void *larger;

  if (n < *room) {
    return RG_OK;
  }
  larger = rg_host_alloc((size_t)more * size);
  if (larger == NULL) {
    return rg_fail(RG_ENOMEM, "load: no memory for %lld names", (long long)more);
  }
  if (n > 0) {
    memcpy(larger, *list, (size_t)n * size);
  }
  rg_host_free(*list);
  *list = larger;
  *room = more;
  return RG_OK;
}

static rg_status lacking(const rg_safetensors_entry *e)
{
  char name[64];

  return rg_fail(RG_EFORMAT, "has no tensor that ridge can read under \"%s\"",
                 rg_shown_name(e->name, name));
}

/* A value that is of another kind than it has to be; where it is no JSON, that is what is wrong. */
static rg_status unreadable(rg_scan *j, const rg_safetensors_entry *e)
{
  RG_TRY(rg_scan_skip(j));
  return lacking(e);
}

static rg_status misplaced(const rg_safetensors_entry *e)
{
  char name[64];

  return rg_fail(RG_EFORMAT, "says of \"%s\" a place that is not that of its shape",
                 rg_shown_name(e->name, name));
}

static rg_status no_size(const rg_safetensors_entry *e)
{
  char name[64];

  return rg_fail(RG_EFORMAT, "has a size that is none in \"%s\"", rg_shown_name(e->name, name));
}

/* Whole numbers of a list: at most most of them are kept, *n says how many there are.  wrong: what
** to say of something else. */
static rg_status read_list(rg_scan *j, const rg_safetensors_entry *e, int64_t *list, int64_t most,
                           rg_status (*wrong)(const rg_safetensors_entry *), int64_t *n)
{
  bool more;

  *n = 0;
  if (rg_scan_next(j) != '[') {
    return unreadable(j, e);
  }
  RG_TRY(rg_scan_enter(j, '['));
  for (;;) {
    int64_t size;
    char next;

    RG_TRY(rg_scan_more(j, ']', n, &more));
    if (!more) {
      return RG_OK;
    }
    next = rg_scan_next(j);
    size = -1;
    if (next == '-' || (next >= '0' && next <= '9')) {
      RG_TRY(rg_scan_whole(j, &size));
    }
    if (size < 0) {
      return wrong(e);
    }
    if (*n <= most) {
      list[*n - 1] = size;
    }
  }
}

static rg_status read_type(rg_scan *j, rg_safetensors_entry *e)
{
  rg_header_text text;
  size_t n;

  if (rg_scan_next(j) != '"') {
    return unreadable(j, e);
  }
  RG_TRY(rg_scan_text(j, &text));
  n = (size_t)rg_min_i64(text.bytes, (int64_t)sizeof(e->type) - 1);
  for (size_t i = 0; i < n; i++) {
    bool plain = (uint8_t)text.data[i] > 0x20 && (uint8_t)text.data[i] < 0x7F;

    e->type[i] = text.data[i];
    if (!plain) {
      e->type[i] = '?';
    }
  }
  e->type[n] = '\0';
  return RG_OK;
}

/* How many elements its shape has. */
static rg_status count(rg_safetensors_entry *e, int64_t ndim)
{
  char name[64];
  bool empty = false;

  if (ndim > RG_MAX_DIMS) {
    return rg_fail(RG_EFORMAT, "has %lld axes in \"%s\"; %d are the most", (long long)ndim,
                   rg_shown_name(e->name, name), RG_MAX_DIMS);
  }
  e->ndim = (int32_t)ndim;
  e->count = 1;
  for (int32_t i = 0; i < e->ndim; i++) {
    empty = empty || e->shape[i] == 0;
    if (!rg_count_grows(&e->count, e->shape[i])) {
      return misplaced(e);
    }
  }
  e->count = empty ? 0 : e->count;
  return RG_OK;
}

/* The value of an entry: type, shape, place; what else there may be says nothing. */
static rg_status read_entry(rg_scan *j, rg_safetensors_entry *e)
{
  enum { TYPE = 1, SHAPE = 2, PLACE = 4 };
  int64_t place[2];
  int64_t ndim = 0;
  int64_t n = 0;
  int64_t n_place = 0;
  int64_t bits;
  int64_t total;
  int seen = 0;
  bool more;

  if (rg_scan_next(j) != '{') {
    return unreadable(j, e);
  }
  RG_TRY(rg_scan_enter(j, '{'));
  for (;;) {
    rg_header_text key;
    char name[64];
    int field;

    RG_TRY(rg_scan_more(j, '}', &n, &more));
    if (!more) {
      break;
    }
    RG_TRY(rg_scan_key(j, &key));
    field = rg_text_is(key, "dtype")          ? TYPE
            : rg_text_is(key, "shape")        ? SHAPE
            : rg_text_is(key, "data_offsets") ? PLACE
                                              : 0;
    if ((seen & field) != 0) {
      return rg_fail(RG_EFORMAT, "says the %s of \"%s\" twice",
                     field == TYPE    ? "type"
                     : field == SHAPE ? "shape"
                                      : "place",
                     rg_shown_name(e->name, name));
    }
    seen |= field;
    RG_TRY(field == TYPE    ? read_type(j, e)
           : field == SHAPE ? read_list(j, e, e->shape, RG_MAX_DIMS, no_size, &ndim)
           : field == PLACE ? read_list(j, e, place, 2, misplaced, &n_place)
                            : rg_scan_skip(j));
  }
  if (seen != (TYPE | SHAPE | PLACE)) {
    return lacking(e);
  }
  RG_TRY(count(e, ndim));
  bits = rg_safetensors_bits(e);
  if (n_place != 2 || place[1] < place[0]) {
    return misplaced(e);
  }
  /* bits that no number counts are of a shape made up to look as if it had few */
  if (bits > 0 && (__builtin_mul_overflow(e->count, bits, &total) || total % 8 != 0 ||
                   place[1] - place[0] != total / 8)) {
    return misplaced(e);
  }
  e->at = place[0];
  e->bytes = place[1] - place[0];
  return RG_OK;
}

/* What is no text where one is expected; where it is no JSON, that is what is wrong. */
static rg_status no_file(rg_scan *j, rg_header_text key)
{
  char name[64];

  RG_TRY(rg_scan_skip(j));
  return rg_fail(RG_EFORMAT, "says of \"%s\" no file that it is in", rg_shown_name(key, name));
}

/* Texts by name, as notes; what is no text is passed over, unless they are names of files. */
static rg_status read_texts(rg_scan *j, rg_opened *self, bool are_files)
{
  int64_t n = 0;
  bool more;

  if (rg_scan_next(j) != '{') {
    RG_TRY(rg_scan_skip(j));
    return are_files ? rg_fail(RG_EFORMAT, "has a weight_map that is no object") : RG_OK;
  }
  RG_TRY(rg_scan_enter(j, '{'));
  for (;;) {
    rg_header_text key;

    RG_TRY(rg_scan_more(j, '}', &n, &more));
    if (!more) {
      return RG_OK;
    }
    RG_TRY(rg_scan_key(j, &key));
    if (rg_scan_next(j) != '"') {
      RG_TRY(are_files ? no_file(j, key) : rg_scan_skip(j));
      continue;
    }
    RG_TRY(grow((void **)&self->notes, self->shown.n_notes, &self->room_notes,
                2 * sizeof(*self->notes)));
    self->notes[2 * self->shown.n_notes] = key;
    RG_TRY(rg_scan_text(j, &self->notes[2 * self->shown.n_notes + 1]));
    self->shown.n_notes++;
  }
}

/* -- Names and places ------------------------------------------------------------------------- */

static int compare_texts(const void *a, const void *b)
{
  const rg_header_text *x = a;
  const rg_header_text *y = b;
  size_t n = (size_t)rg_min_i64(x->bytes, y->bytes);
  int order = n > 0 ? memcmp(x->data, y->data, n) : 0;

  return order != 0 ? order : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Refuse a name that is there twice among n, step texts apart. */
static rg_status refuse_twice(const rg_header_text *names, int64_t n, int64_t step)
{
  rg_header_text *sorted = rg_host_alloc((size_t)rg_max_i64(n, 1) * sizeof(*sorted));
  rg_status status = RG_OK;

  if (sorted == NULL) {
    return rg_fail(RG_ENOMEM, "load: no memory for %lld names", (long long)n);
  }
  for (int64_t i = 0; i < n; i++) {
    sorted[i] = names[i * step];
  }
  qsort(sorted, (size_t)n, sizeof(*sorted), compare_texts);
  for (int64_t i = 1; i < n && status == RG_OK; i++) {
    if (compare_texts(&sorted[i - 1], &sorted[i]) == 0) {
      char name[64];

      status = rg_fail(RG_EFORMAT, "has \"%s\" twice", rg_shown_name(sorted[i], name));
    }
  }
  rg_host_free(sorted);
  return status;
}

static rg_status refuse_names_twice(const rg_opened *self)
{
  int64_t n = self->shown.n;
  rg_header_text *names = rg_host_alloc((size_t)rg_max_i64(n, 1) * sizeof(*names));
  rg_status status;

  if (names == NULL) {
    return rg_fail(RG_ENOMEM, "load: no memory for %lld names", (long long)n);
  }
  for (int64_t i = 0; i < n; i++) {
    names[i] = self->entries[i].name;
  }
  status = refuse_twice(names, n, 1);
  rg_host_free(names);
  return status == RG_OK ? refuse_twice(self->notes, self->shown.n_notes, 2) : status;
}

static int compare_places(const void *a, const void *b)
{
  const rg_safetensors_entry *x = a;
  const rg_safetensors_entry *y = b;

  if (x->at != y->at) {
    return x->at < y->at ? -1 : 1;
  }
  if (x->bytes != y->bytes) {
    return x->bytes < y->bytes ? -1 : 1;
  }
  return compare_texts(&x->name, &y->name);
}

/* Every one of the bytes behind the header belongs to one tensor; places become those in the
** file. */
static rg_status check_places(rg_opened *self, int64_t start)
{
  int64_t there = self->shown.bytes - start;
  int64_t n = self->shown.n;
  int64_t at = 0;
  int64_t known = 0;

  if (n > 0) {
    qsort(self->entries, (size_t)n, sizeof(*self->entries), compare_places);
  }
  for (int64_t i = 0; i < n; i++) {
    rg_safetensors_entry *e = &self->entries[i];
    char name[64];

    if (e->at != at || __builtin_add_overflow(at, e->bytes, &at)) {
      return rg_fail(RG_EFORMAT, "has a gap or an overlap before \"%s\"",
                     rg_shown_name(e->name, name));
    }
    e->at += at <= there ? start : 0; /* else it is refused below */
    known += e->dtype != RG_DTYPE_COUNT;
  }
  if (at != there) {
    return at > there ? rg_fail(RG_EFORMAT, "is cut off: %lld of %lld bytes are there",
                                (long long)there, (long long)at)
                      : rg_fail(RG_EFORMAT, "has %lld bytes behind its last tensor",
                                (long long)(there - at));
  }
  if (n > 0 && known == 0) {
    char name[64];

    if (rg_safetensors_bits(&self->entries[0]) < 0) { /* a type that the format does not know */
      return lacking(&self->entries[0]);
    }
    return rg_fail(RG_EFORMAT, "has no tensor that ridge can read: \"%s\" is of type %s",
                   rg_shown_name(self->entries[0].name, name), self->entries[0].type);
  }
  return RG_OK;
}

/* -- Headers ---------------------------------------------------------------------------------- */

static rg_status read_entries(rg_scan *j, rg_opened *self)
{
  bool noted = false;
  bool more;
  int64_t n = 0;

  RG_TRY(rg_scan_enter(j, '{'));
  for (;;) {
    rg_safetensors_entry *e;
    rg_header_text name;

    RG_TRY(rg_scan_more(j, '}', &n, &more));
    if (!more) {
      return rg_scan_end(j);
    }
    RG_TRY(rg_scan_key(j, &name));
    if (rg_text_is(name, "__metadata__")) {
      if (noted) {
        return rg_fail(RG_EFORMAT, "has \"__metadata__\" twice");
      }
      noted = true;
      RG_TRY(read_texts(j, self, false));
      continue;
    }
    RG_TRY(grow((void **)&self->entries, self->shown.n, &self->room, sizeof(*self->entries)));
    e = &self->entries[self->shown.n];
    *e = (rg_safetensors_entry){ .name = name };
    RG_TRY(read_entry(j, e));
    self->shown.n++;
  }
}

/* The text of a header: n bytes of the file from at on. */
static rg_status read_text(rg_opened *self, int64_t at, int64_t n, rg_scan *j)
{
  self->header = rg_host_alloc((size_t)rg_max_i64(n, 1));
  if (self->header == NULL) {
    return rg_fail(RG_ENOMEM, "load: no memory for a header of %lld bytes", (long long)n);
  }
  RG_TRY(rg_io_read(self->file, at, self->header, n));
  *j = (rg_scan){ .text = self->header, .end = n };
  return RG_OK;
}

/* What is wrong with the JSON, of the file; with its place where an object has begun. */
static rg_status said_of(const rg_scan *j, rg_status status, const char *what)
{
  char text[256];

  if (status == RG_OK || !j->broken) {
    return status;
  }
  if (j->at == 0 || j->end == 0 || j->text[0] != '{') {
    return rg_fail(RG_EFORMAT, "%s", what);
  }
  snprintf(text, sizeof(text), "%s", rg_error_message());
  return rg_fail(RG_EFORMAT, "%s (%s)", what, text);
}

static rg_status read_header(rg_opened *self)
{
  uint8_t first[8];
  uint64_t n = 0;
  rg_scan j = { .broken = false };

  if (self->shown.bytes < 8) {
    return rg_fail(RG_EFORMAT, "is cut off: it has no header");
  }
  RG_TRY(rg_io_read(self->file, 0, (char *)first, 8));
  for (int i = 7; i >= 0; i--) {
    n = n << 8 | first[i];
  }
  if (n > RG_LONGEST_HEADER) {
    return rg_fail(RG_EFORMAT, "is no safetensors file");
  }
  if ((int64_t)n > self->shown.bytes - 8) {
    return rg_fail(RG_EFORMAT, "is cut off: %lld of %lld bytes of its header are there",
                   (long long)self->shown.bytes - 8, (long long)n);
  }
  RG_TRY(read_text(self, 8, (int64_t)n, &j));
  RG_TRY(said_of(&j, read_entries(&j, self), "is no safetensors file: its header is no JSON"));
  RG_TRY(refuse_names_twice(self));
  return check_places(self, (int64_t)n + 8);
}

static rg_status read_weight_map(rg_scan *j, rg_opened *self)
{
  bool mapped = false;
  bool more;
  int64_t n = 0;

  RG_TRY(rg_scan_enter(j, '{'));
  for (;;) {
    rg_header_text name;

    RG_TRY(rg_scan_more(j, '}', &n, &more));
    if (!more) {
      break;
    }
    RG_TRY(rg_scan_key(j, &name));
    if (!rg_text_is(name, "weight_map")) {
      RG_TRY(rg_scan_skip(j));
      continue;
    }
    if (mapped) {
      return rg_fail(RG_EFORMAT, "has \"weight_map\" twice");
    }
    mapped = true;
    RG_TRY(read_texts(j, self, true));
  }
  RG_TRY(rg_scan_end(j));
  return mapped ? RG_OK
                : rg_fail(RG_EFORMAT, "is JSON, but no index of safetensors files: it has no "
                                      "weight_map");
}

static rg_status read_index(rg_opened *self)
{
  rg_scan j = { .broken = false };

  if (self->shown.bytes > RG_LONGEST_HEADER) {
    return rg_fail(RG_EFORMAT, "is an index of %lld bytes; %d are the most",
                   (long long)self->shown.bytes, RG_LONGEST_HEADER);
  }
  RG_TRY(read_text(self, 0, self->shown.bytes, &j));
  RG_TRY(said_of(&j, read_weight_map(&j, self),
                 "is no safetensors file, and no index of some: it is no JSON"));
  return refuse_names_twice(self);
}

/* -- Opening ---------------------------------------------------------------------------------- */

static rg_status open_with(const char *path, rg_status (*read)(rg_opened *), rg_safetensors **out)
{
  rg_opened *self;
  rg_status status;

  if (path == NULL || out == NULL) {
    return rg_fail(RG_EARG, "load: a pointer is NULL");
  }
  self = rg_host_zeroed(sizeof(*self));
  if (self == NULL) {
    return rg_fail(RG_ENOMEM, "load: no memory for %s", path);
  }
  atomic_init(&self->refs, 1);
  (void)pthread_mutex_init(&self->lock, NULL);
  self->path = rg_host_alloc(strlen(path) + 1);
  self->file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO waits for nobody */
  if (self->path == NULL) {
    status = rg_fail(RG_ENOMEM, "load: no memory for %s", path);
  } else if (self->file < 0 || fstat(self->file, &self->facts) != 0) {
    status = rg_fail(RG_EIO, "load: %s: %s", path, strerror(errno));
  } else if (!S_ISREG(self->facts.st_mode)) {
    status = rg_fail(RG_EFORMAT, "is no file");
  } else {
    memcpy(self->path, path, strlen(path) + 1);
    self->shown.bytes = self->facts.st_size;
    status = read(self);
  }
  if (status != RG_OK) {
    rg_opened_release(self);
    return status;
  }
  self->shown.entries = self->entries;
  self->shown.notes = self->notes;
  *out = &self->shown;
  return RG_OK;
}

rg_status rg_safetensors_open(const char *path, rg_safetensors **out)
{
  return open_with(path, read_header, out);
}

rg_status rg_safetensors_index(const char *path, rg_safetensors **out)
{
  return open_with(path, read_index, out);
}

void rg_opened_release(rg_opened *self)
{
  if (atomic_fetch_sub(&self->refs, 1) != 1) {
    return;
  }
  if (self->map != NULL) {
    munmap(self->map, (size_t)self->shown.bytes);
  }
  if (self->file >= 0) {
    (void)close(self->file);
  }
  (void)pthread_mutex_destroy(&self->lock);
  rg_host_free(self->entries);
  rg_host_free(self->notes);
  rg_host_free(self->header);
  rg_host_free(self->path);
  rg_host_free(self);
}

void rg_safetensors_release(rg_safetensors *file)
{
  if (file != NULL) {
    rg_opened_release((rg_opened *)file);
  }
}
