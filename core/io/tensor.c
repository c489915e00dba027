/* SPDX-License-Identifier: MIT */
/*
** Tensors of ONNX files: where their elements are, and reading them.
*/
#include <limits.h>
#include <string.h>

#include "tensor/tensor.h"
#include "io/io.h"

/* -- What the message says ---------------------------------------------------------------- */

/* How many values each of the lists holds. */
typedef struct tally {
  int64_t of[RG_ONNX_FIELD_COUNT - RG_ONNX_tensor_dims];
  int64_t location_kind;
  bool segment;
} tally;

#define TALLY(t, list) ((t)->of[RG_ONNX_tensor_##list - RG_ONNX_tensor_dims])

static int name_length(const rg_onnx_tensor *t)
{
  return (int)(t->name_bytes < 60 ? t->name_bytes : 60);
}

#define NAMED(t) name_length(t), (t)->name != NULL ? (t)->name : ""

/* How many numbers are packed, without reading them twice: a varint ends with a byte below 128. */
static int64_t packed_numbers(const rg_onnx_item *item)
{
  int32_t kind = rg_onnx_field_of(item->field)->kind;
  int64_t n = 0;

  if (kind != RG_ONNX_INT) {
    return item->bytes / (kind == RG_ONNX_FLOAT ? 4 : 8);
  }
  for (int64_t i = 0; i < item->bytes; i++) {
    n += (uint8_t)item->data[i] < 0x80;
  }
  return n;
}

static rg_status add_dim(rg_onnx_tensor *out, int64_t size)
{
  if (out->ndim >= RG_ONNX_MAX_DIMS) {
    return rg_fail(RG_EFORMAT, "a tensor has more than %d axes", RG_ONNX_MAX_DIMS);
  }
  if (size < 0) {
    return rg_fail(RG_EFORMAT, "a tensor has an axis of %lld elements", (long long)size);
  }
  out->dims[out->ndim++] = size;
  return RG_OK;
}

static rg_status add_dims(rg_onnx_tensor *out, rg_onnx_item *item)
{
  if (!item->packed) {
    return add_dim(out, item->whole);
  }
  while (item->bytes > 0) {
    RG_TRY(rg_onnx_unpack(item));
    RG_TRY(add_dim(out, item->whole));
  }
  return RG_OK;
}

/* A number in decimal; -1: none. */
static int64_t decimal(const char *text, int64_t n)
{
  int64_t value = 0;

  for (int64_t i = 0; i < n; i++) {
    if (text[i] < '0' || text[i] > '9' || value > (INT64_MAX - 9) / 10) {
      return -1;
    }
    value = 10 * value + (text[i] - '0');
  }
  return n > 0 ? value : -1;
}

static bool is(const rg_onnx_item *item, const char *word)
{
  return item->bytes == (int64_t)strlen(word) && memcmp(item->data, word, (size_t)item->bytes) == 0;
}

/* An entry of external_data: location, offset, length; what else there may be says nothing. */
static rg_status add_entry(const char *start, const rg_onnx_item *entry, rg_onnx_tensor *out)
{
  rg_onnx_cursor c = {
    .start = start, .at = entry->at, .end = entry->at + entry->bytes, .message = RG_ONNX_entry
  };
  rg_onnx_item key = { .data = "" };
  rg_onnx_item said = { .data = "" };

  for (;;) {
    rg_onnx_item item;

    RG_TRY(rg_onnx_next(&c, &item));
    if (item.field < 0) {
      break;
    }
    *(item.field == RG_ONNX_entry_key ? &key : &said) = item;
  }
  if (is(&key, "location")) {
    out->location = said.data;
    out->location_bytes = said.bytes;
  } else if (is(&key, "offset") || is(&key, "length")) {
    int64_t number = decimal(said.data, said.bytes);

    if (number < 0) {
      return rg_fail(RG_EFORMAT, "a tensor's external data has the %s '%.*s'",
                     is(&key, "offset") ? "offset" : "length",
                     (int)(said.bytes < 40 ? said.bytes : 40), said.data);
    }
    *(is(&key, "offset") ? &out->external_at : &out->external_bytes) = number;
  }
  return RG_OK;
}

static rg_status add_item(const char *start, rg_onnx_item *item, tally *t, rg_onnx_tensor *out)
{
  switch (item->field) {
  case RG_ONNX_tensor_dims:
    return add_dims(out, item);
  case RG_ONNX_tensor_data_type:
    out->type = item->whole > 0 && item->whole < INT32_MAX ? (int32_t)item->whole : 0;
    return RG_OK;
  case RG_ONNX_tensor_name:
    out->name = item->data;
    out->name_bytes = item->bytes;
    return RG_OK;
  case RG_ONNX_tensor_raw_data:
    out->raw_at = item->at;
    out->raw_bytes = item->bytes;
    return RG_OK;
  case RG_ONNX_tensor_external_data:
    return add_entry(start, item, out);
  case RG_ONNX_tensor_data_location:
    t->location_kind = item->whole;
    return RG_OK;
  case RG_ONNX_tensor_segment:
    t->segment = true;
    return RG_OK;
  default:
    t->of[item->field - RG_ONNX_tensor_dims] += item->packed ? packed_numbers(item) : 1;
    return RG_OK;
  }
}

/* How many elements dims ask for. */
static rg_status count_elements(rg_onnx_tensor *out)
{
  int64_t count = 1;

  for (int32_t i = 0; i < out->ndim; i++) {
    if (out->dims[i] == 0) {
      out->count = 0;
      return RG_OK;
    }
  }
  for (int32_t i = 0; i < out->ndim; i++) {
    if (__builtin_mul_overflow(count, out->dims[i], &count) || count > INT64_MAX / 256) {
      return rg_fail(RG_EFORMAT, "tensor '%.*s' has more elements than a number can count",
                     NAMED(out));
    }
  }
  out->count = count;
  return RG_OK;
}

/* The list in which elements of a type stand where there is no raw_data, and how many of its
** numbers hold the tensor's. */
static int32_t list_of(const rg_onnx_tensor *t, int64_t *numbers)
{
  int32_t bits = rg_onnx_type_of(t->type)->bits;

  *numbers = t->count;
  switch (t->type) {
  case 8:
    return RG_ONNX_tensor_string_data;
  case 14:
    *numbers = 2 * t->count;
    return RG_ONNX_tensor_float_data;
  case 15:
    *numbers = 2 * t->count;
    return RG_ONNX_tensor_double_data;
  case 1:
    return RG_ONNX_tensor_float_data;
  case 7:
    return RG_ONNX_tensor_int64_data;
  case 11:
    return RG_ONNX_tensor_double_data;
  case 12:
  case 13:
    return RG_ONNX_tensor_uint64_data;
  default:
    *numbers = bits < 8 ? (t->count * bits + 7) / 8 : t->count;
    return RG_ONNX_tensor_int32_data;
  }
}

static int64_t bytes_of(int32_t type, int64_t count)
{
  return (count * rg_onnx_type_of(type)->bits + 7) / 8;
}

/* Elsewhere: is it said where, and how much? */
static rg_status check_external(rg_onnx_tensor *out)
{
  if (out->location == NULL || out->location_bytes == 0) {
    return rg_fail(RG_EFORMAT, "tensor '%.*s' has its elements in a file that is not named",
                   NAMED(out));
  }
  if (out->type == 8) {
    return rg_fail(RG_EFORMAT, "tensor '%.*s' has strings in another file", NAMED(out));
  }
  out->there = -1;
  out->raw_at = -1;
  out->raw_bytes = bytes_of(out->type, out->count);
  if (out->external_bytes >= 0 && out->external_bytes != out->raw_bytes) {
    return rg_fail(RG_EFORMAT, "tensor '%.*s' takes %lld bytes and has %lld in another file",
                   NAMED(out), (long long)out->raw_bytes, (long long)out->external_bytes);
  }
  return RG_OK;
}

static rg_status check_elements(const tally *t, rg_onnx_tensor *out)
{
  const rg_onnx_type *type = rg_onnx_type_of(out->type);
  int64_t wanted;
  int64_t have;

  if (type == NULL) {
    return rg_fail(RG_EFORMAT, "tensor '%.*s' is of element type %d, which is none", NAMED(out),
                   out->type);
  }
  if (t->segment) {
    return rg_fail(RG_EFORMAT, "tensor '%.*s' is stored in segments", NAMED(out));
  }
  RG_TRY(count_elements(out));
  if (t->location_kind == 1) {
    return check_external(out);
  }
  out->location = NULL;
  out->there = out->count;
  if (out->raw_at >= 0) {
    wanted = bytes_of(out->type, out->count);
    if (out->type == 8 || out->raw_bytes != wanted) {
      return rg_fail(RG_EFORMAT, "tensor '%.*s' takes %lld bytes and has %lld", NAMED(out),
                     (long long)wanted, (long long)out->raw_bytes);
    }
    return RG_OK;
  }
  have = t->of[list_of(out, &wanted) - RG_ONNX_tensor_dims];
  if (have != wanted) {
    return rg_fail(RG_EFORMAT, "tensor '%.*s' takes %lld numbers and has %lld in %s", NAMED(out),
                   (long long)wanted, (long long)have,
                   rg_onnx_field_of(list_of(out, &wanted))->name);
  }
  return RG_OK;
}

rg_status rg_onnx_tensor_of(const char *start, int64_t at, int64_t bytes, rg_onnx_tensor *out)
{
  rg_onnx_tensor t = { .raw_at = -1, .external_bytes = -1 };
  rg_onnx_cursor c = { .start = start, .at = at, .end = at + bytes, .message = RG_ONNX_tensor };
  tally counts = { 0 };

  if (start == NULL || out == NULL || at < 0 || bytes < 0) {
    return rg_fail(RG_EARG, "onnx: a pointer is NULL, or a place below 0");
  }
  for (;;) {
    rg_onnx_item item;

    RG_TRY(rg_onnx_next(&c, &item));
    if (item.field < 0) {
      break;
    }
    RG_TRY(add_item(start, &item, &counts, &t));
  }
  RG_TRY(check_elements(&counts, &t));
  *out = t;
  return RG_OK;
}

/* -- Elements out of lists ------------------------------------------------------------------ */

/* Bytes as raw_data would hold them, on their way to the type they are read as. */
typedef struct sink {
  char raw[4096];
  int64_t n;    /* bytes in raw */
  int64_t done; /* elements that were converted */
  int64_t count;
  int32_t type;
  int32_t one; /* bytes that a number of the list gives */
  char *out;
} sink;

static rg_status flush(sink *s)
{
  int64_t bits = rg_onnx_type_of(s->type)->bits;
  int64_t elements = s->n * 8 / bits;

  if (elements > s->count - s->done) {
    elements = s->count - s->done; /* the last byte of small types may be half empty */
  }
  RG_TRY(rg_onnx_widen(s->type, s->raw, elements, s->done, s->out));
  s->done += elements;
  s->n = 0;
  return RG_OK;
}

static rg_status put(sink *s, const rg_onnx_item *number)
{
  float single = (float)number->real;

  if (s->n + s->one > (int64_t)sizeof(s->raw)) {
    RG_TRY(flush(s));
  }
  switch (rg_onnx_field_of(number->field)->kind) { /* the lowest bytes come first */
  case RG_ONNX_FLOAT:
    memcpy(s->raw + s->n, &single, 4);
    break;
  case RG_ONNX_DOUBLE:
    memcpy(s->raw + s->n, &number->real, 8);
    break;
  default:
    memcpy(s->raw + s->n, &number->whole, (size_t)s->one);
    break;
  }
  s->n += s->one;
  return RG_OK;
}

/* The numbers of a list to the elements of out. */
static rg_status read_list(const char *start, int64_t at, int64_t bytes, const rg_onnx_tensor *t,
                           void *out)
{
  rg_onnx_cursor c = { .start = start, .at = at, .end = at + bytes, .message = RG_ONNX_tensor };
  sink s = { .type = t->type, .count = t->count, .out = out };
  int64_t numbers;
  int32_t list = list_of(t, &numbers);

  s.one = (rg_onnx_type_of(t->type)->bits + 7) / 8;
  for (;;) {
    rg_onnx_item item;

    RG_TRY(rg_onnx_next(&c, &item));
    if (item.field < 0) {
      return flush(&s);
    }
    if (item.field != list) {
      continue;
    }
    if (!item.packed) {
      RG_TRY(put(&s, &item));
    }
    while (item.packed && item.bytes > 0) {
      RG_TRY(rg_onnx_unpack(&item));
      RG_TRY(put(&s, &item));
    }
  }
}

rg_status rg_onnx_tensor_read(const char *start, int32_t file, int64_t at, int64_t bytes,
                              rg_tensor **out)
{
  rg_tensor *x = NULL;
  rg_onnx_tensor t;
  rg_status status;

  if (out == NULL) {
    return rg_fail(RG_EARG, "onnx: a pointer is NULL");
  }
  RG_TRY(rg_onnx_tensor_of(start, at, bytes, &t));
  if (t.there < 0) {
    return rg_fail(RG_EARG, "onnx: the elements are in another file");
  }
  RG_TRY(rg_onnx_room(&t, &x));
  status = t.raw_at >= 0 ? rg_onnx_elements(file, t.raw_at, t.type, t.count, x->_data)
                         : read_list(start, at, bytes, &t, x->_data);
  if (status != RG_OK) {
    rg_tensor_release(x);
    return status;
  }
  *out = x;
  return RG_OK;
}
